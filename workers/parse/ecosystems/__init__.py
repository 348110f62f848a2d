"""Rules of each ecosystem: how imports are written, which files and packages they mean.

A module serves the languages of one ecosystem with those of these functions that apply to it:

    statements(text)            the imports that an import statement of its grammar makes
    references(text)            what a whole file refers to, for formats read without a grammar
    resolve(imp, path, layout)  the files of the repository that an import means
    packages(imp)               keys of the packages that an external import may come from

`language_rules` says which language uses which of these functions.
"""
