"""Define for each ecosystem how imports are written, and which files and packages they refer to.

Each module serves the languages of one ecosystem. It has those of these functions that apply:

    statements(text)            the imports in one import statement
    references(text)            what a whole file refers to, for formats read without a grammar
    resolve(imp, path, layout)  the files of the repository that an import refers to
    packages(imp)               keys of the packages that an external import may come from

`language_rules` says which language uses which of these functions.
"""
