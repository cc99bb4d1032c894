"""Which options beyond the paper help: what is measured, and the page that says so."""
