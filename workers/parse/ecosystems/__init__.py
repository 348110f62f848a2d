"""How each ecosystem writes imports, which files they mean, and which packages they come from.

A module serves the languages of one ecosystem and offers what applies of

    statements(text)            the imports that an import statement of its grammar makes
    references(text)            what a whole file refers to, for formats read without a grammar
    resolve(imp, path, layout)  the files of the repository that an import means
    packages(imp)               keys of the packages that an external import may come from

`language_table` says which language uses which of these functions.
"""
