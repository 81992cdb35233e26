"""The recipe: everything that decides a run, typed.

`schema` holds the sections, `files` reads YAML files and overrides, `checks` holds the checks that need torch.
"""
