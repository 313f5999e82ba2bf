"""The paper's tables and theorems, reproduced: which claims hold, and the figures behind them."""

from pages.ui.paper.results import (
    choose_experiment,
    offer_rerun,
    show_claims,
    show_downloads,
    show_figures,
    show_overview,
    show_provenance,
    show_tables,
)
from pages.ui.shared.shell import open_page
from pages.ui.shared.show import explain_terms

PROMISE = "Every table, theorem and figure of the paper, reproduced: which claims hold, and which do not."

with open_page("Paper", PROMISE) as page:
    show_overview()
    found = choose_experiment()
    if found is not None:
        chosen, result = found
        if result is not None:
            show_claims(result)
            show_tables(result, show_figures(result))
            show_provenance(result)
            show_downloads(result)
        offer_rerun(page, chosen, result)
    explain_terms(
        "soft label", "AUC_SPU", "ceiling", "perfect classifier", "generalized SCAR", "prior", "standard error"
    )
