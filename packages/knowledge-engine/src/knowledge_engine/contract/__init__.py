"""The promise that every backend keeps, as laws that are tried on it. Needs the extra `contract`.

An adapter proves itself in three lines, see `provider_contract`; programs use `run_contract`.
"""

from knowledge_engine.contract.case import Opened, OpenFs, OpenProvider
from knowledge_engine.contract.law import LEVELS, BrokenLawError, Law, Level
from knowledge_engine.contract.profiles import PROFILES, Profile
from knowledge_engine.contract.runner import FS_LAWS, LAWS, Failure, Report, check_law, run_contract
from knowledge_engine.contract.suite import fs_contract, parity_contract, provider_contract

__all__ = [
    "FS_LAWS",
    "LAWS",
    "LEVELS",
    "PROFILES",
    "BrokenLawError",
    "Failure",
    "Law",
    "Level",
    "OpenFs",
    "OpenProvider",
    "Opened",
    "Profile",
    "Report",
    "check_law",
    "fs_contract",
    "parity_contract",
    "provider_contract",
    "run_contract",
]
