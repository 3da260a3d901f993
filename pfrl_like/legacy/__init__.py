"""Functions of PFRL's modules that scripts import, but that this library does not use itself.

`utils/old_names.py` finds them at their old paths, which `names.py` lists.
"""
