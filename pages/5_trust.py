"""How good is it really, and how to find out cheaply."""

from pages.ui.shared.shell import open_page
from pages.ui.trust.case import choose_case
from pages.ui.trust.sections import choose_section

with open_page("Trust", "How good is it really, and how do you find out cheaply?") as page:
    case = choose_case(page)
    show_section = choose_section()
    show_section(case)
