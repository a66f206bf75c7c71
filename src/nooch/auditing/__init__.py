"""Labels worth a second look: those that models and the context contradict, and a page to review
them.
"""

from nooch.auditing.audit_result import Audit, AuditOptions
from nooch.auditing.label_audit import audit

__all__ = ["Audit", "AuditOptions", "audit"]
