"""The report: a folder of static pages that open from a file and carry no script but their own."""
