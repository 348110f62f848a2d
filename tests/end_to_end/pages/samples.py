"""Define the content of the repositories that the pages show, and the sizes of browser windows."""

from __future__ import annotations

WAIT_MS = 60_000
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}

PLANT = "<script>planted=1</script><img src=x onerror=planted=1>"
HOSTILE_PATH = "src/<img src=x onerror=planted=1>.py"
HOSTILE_REF = "<script>planted=1</script>"
HOSTILE_NAME = "acme/planted"  # a name itself cannot hold markup
COPIED, COPY = "kombu/common.py", "copied/common.py"
HOSTILE_CODE = f'''def planted_name():
    """{PLANT}"""
    return "</code></li></ol>{PLANT}\x1b[2J\u202e"
'''
