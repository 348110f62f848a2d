"""The read side: faces (`api`) over the service layer (`service`) over the search pipeline."""
