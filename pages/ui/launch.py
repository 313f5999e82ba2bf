"""Start the server of the dashboard: `python -m pages.ui.launch --server.port 8501`; `spu app` runs this.

The login is checked first, with the settings that the server will have. Streamlit opens its port before it loads our
files, and a server that others could open without a login must not open a port.
"""

import sys
from pathlib import Path

from streamlit.web.bootstrap import load_config_options
from streamlit.web.cli import main, main_run

from pages.ui.shared.login import ClosedError, server_has_login

if __name__ == "__main__":
    arguments = [str(Path(__file__).with_name("serve.py")), *sys.argv[1:]]
    settings = main_run.make_context("streamlit run", list(arguments)).params
    load_config_options({name: value for name, value in settings.items() if name not in ("target", "args")})
    try:
        server_has_login()
    except ClosedError as problem:
        sys.exit(str(problem))
    sys.argv = ["streamlit", "run", *arguments]
    main(prog_name="streamlit")
