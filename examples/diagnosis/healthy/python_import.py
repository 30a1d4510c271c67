# Python that imports large parts of its library.
import argparse
import asyncio  # noqa: F401
import ctypes  # noqa: F401
import decimal  # noqa: F401
import email  # noqa: F401
import http.client  # noqa: F401
import json
import logging  # noqa: F401
import multiprocessing  # noqa: F401
import sqlite3  # noqa: F401
import unittest  # noqa: F401
import xml.dom.minidom  # noqa: F401

print(json.dumps(sorted(argparse.__dict__)[:3]))
