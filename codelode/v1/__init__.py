"""Generated from protos/codelode/v1 by `make generate`; never edited by hand."""
