"""What is imported when: torch takes seconds, and a person who asks for help should not wait for it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cli


@pytest.mark.parametrize(
    "code",
    [
        "import damnatio",
        "import damnatio; damnatio.run, damnatio.erase, damnatio.recheck, damnatio.load_model, damnatio.export",
        "import damnatio.recipe.files, damnatio.recipe.schema, damnatio.recipe.sentences, damnatio.recipe.yaml_text",
        "from damnatio.cli.main import main; main(['ls', 'recipes'])",
        "from damnatio.cli.main import main; main(['ls', 'sources'])",
        "from damnatio.cli.main import main; main(['completion', 'bash'])",
        "from damnatio.cli.main import main; main(['--version'])",
    ],
)
def test_torch_is_left_alone(code: str) -> None:
    code += "; import sys; print('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
