"""YAML as recipes use it: plain values, each key once, and no deeper than anybody writes."""

from typing import Any

import yaml


class RepeatedKeyError(ValueError):
    """Its text names the key and the lines on which it stands."""


def parse(text: str) -> Any:
    """The value of a YAML text; a RepeatedKeyError, another ValueError or a yaml.YAMLError says what is wrong."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


MOST_MERGED = 1000
"""keys that `<<` may bring into one mapping: merges of merges multiply, and a short text could ask for billions"""


class _Loader(yaml.SafeLoader):
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        written = len(node.value)
        super().flatten_mapping(node)
        if len(node.value) > written + MOST_MERGED:
            raise ValueError(f"'<<' on line {node.start_mark.line + 1} merges more than {MOST_MERGED} keys")

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """Escapes can spell what no path and no UTF-8 text can hold: "\\0", "\\ud800"."""
        node = super().compose_scalar_node(anchor)
        if "\0" in node.value or any("\ud800" <= letter <= "\udfff" for letter in node.value):
            raise ValueError(f"line {node.start_mark.line + 1} has a character that no name can have")
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """YAML's own rule, which PyYAML leaves unchecked: of two values under one key it would take the last."""
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in seen:
                    raise RepeatedKeyError(
                        f"the key '{key.value}' stands twice, on line {seen[name]} and on line {line}"
                    )
                seen[name] = line
        return node
