"""The read side: analyze → retrieve → rank → assemble."""
