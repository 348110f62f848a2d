"""The read side: analyze → retrieve → rank → expand → assemble."""
