"""EvoAudit: when can a computer-use-agent score be believed?"""

__version__ = "0.1.0"
