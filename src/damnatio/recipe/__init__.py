"""The recipe: everything that decides a run, typed.

`schema` holds the sections and their keys, `files` reads YAML files and overrides (`yaml_text` parses them),
`sentences` says what is wrong, `checks` holds what needs torch. Only `checks` imports torch.
"""
