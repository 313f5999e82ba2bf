"""The Data page: a sample in one click, uploads of any shape, roles that are kept, deletion that says what goes."""

from __future__ import annotations

import pytest

from pages.ui.shared.text import plain
from spu_core.tables import read_table
from spu_core.tables.samples import load_sample
from spu_core.workspace import Workspace
from tests.live import WORKER_PATIENCE

CSV = b"id,amount,note,fraud\n" + b"".join(
    b"%d,%d,%s,%d\n" % (row, row * 7 % 100, b"<b>bold</b>" if row % 2 else b"$x$ *y*", row % 10 == 0)
    for row in range(200)
)


@pytest.fixture
def data_page(open_app):
    return open_app("pages/1_data.py")


def test_the_empty_page_offers_a_file_and_the_samples(data_page):
    assert not data_page.exception
    assert {"Anti-cheat game", "Breast cancer"} <= {button.label for button in data_page.button}


def test_one_click_brings_a_sample_with_its_rules(data_page):
    data_page.button(key="sample_breast_cancer").click().run()

    assert not data_page.exception
    assert {metric.label: metric.value for metric in data_page.metric}["Rows"] == "569"
    assert set(data_page.query_params) == {"dataset", "rules"}
    with Workspace.open() as workspace:
        assert [record.name for record in workspace.datasets.list()] == ["Breast cancer"]


def test_an_upload_is_kept_and_shown(data_page):
    data_page.file_uploader(key="data_upload_0").upload("sales.csv", CSV).run()

    assert not data_page.exception
    values = {metric.label: metric.value for metric in data_page.metric}
    assert (values["Rows"], values["Columns"], values["Rejected lines"]) == ("200", "4", "0")
    with Workspace.open() as workspace:
        assert len(workspace.datasets.list()) == 1


MESSY = (
    "Größe;Größe;Preis €;leer;betrügt\n1,5;3;1.234,50;;1\nkaputt\n2,5;4;2,10;;0;zu viel\n".encode("cp1252")
    + b"3,5;7;9,9;;0\n" * 40
)


def test_a_messy_file_says_how_it_was_read_and_what_was_left_out(data_page):
    data_page.file_uploader(key="data_upload_0").upload("messy.csv", MESSY).run()

    assert not data_page.exception
    told = [caption.value for caption in data_page.caption]
    assert plain("messy.csv: text, cp1252, separator semicolon, decimal comma; 41 rows read, 2 rejected") in told
    warned = " ".join(warning.value for warning in data_page.warning)
    assert "has 1 field where 5 are expected" in warned
    assert plain("The header contains 'Größe' more than once") in warned
    assert plain("Column 'leer' has no value in any row.") in warned
    # The missing label is said once, with the column that looks like it.
    assert not any("label" in info.value for info in data_page.info)
    assert any(
        "'betrügt' looks like the label: '1' in 1 row" in each.value.replace("\\", "") for each in data_page.markdown
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"a,b,label\n", "has no rows below its header"), (b"", "is empty")],
    ids=["only a header", "nothing"],
)
def test_a_file_without_rows_is_refused_in_words(data_page, content, sentence):
    data_page.file_uploader(key="data_upload_0").upload("none.csv", content).run()

    assert not data_page.exception
    assert sentence in data_page.error[0].value


def test_one_row_is_a_table_too(data_page):
    data_page.file_uploader(key="data_upload_0").upload("one.csv", b"a,b,label\n1,2,1\n").run()

    assert not data_page.exception
    assert any("1 row read" in caption.value for caption in data_page.caption)
    assert any("only one row" in each.value for each in data_page.markdown)
    assert any(" · 1 row · " in option for each in data_page.selectbox for option in each.options)


def test_a_file_that_is_no_table_is_refused_in_words(data_page):
    data_page.file_uploader(key="data_upload_0").upload(
        "login.csv", b"<!DOCTYPE html><html><body>Log in</body></html>"
    ).run()

    assert not data_page.exception
    assert "HTML" in data_page.error[0].value
    assert "What was read" not in [each.value for each in data_page.subheader]
    data_page.button(key="data_reading_close").click().run()
    assert not data_page.error


def test_after_a_refused_upload_the_earlier_table_keeps_its_own_name(open_app):
    with Workspace.open() as workspace:
        earlier = workspace.datasets.save(load_sample("breast_cancer"), "earlier")
    page = open_app("pages/1_data.py", dataset=earlier.id)
    assert "What was read" in [each.value for each in page.subheader]

    page.file_uploader(key="data_upload_0").upload("none.csv", b"").run()

    titles = [each.value for each in page.subheader]
    assert "Still open: earlier" in titles
    assert "What was read" not in titles


@pytest.mark.parametrize(
    ("label", "sentence"),
    [(None, "No label column yet."), ("", "No row is a confirmed case."), ("yes", "Every row is a confirmed")],
)
def test_data_that_cannot_be_trained_on_says_why_and_is_not_done(open_app, label, sentence):
    content = b"a,found\n" + b"".join(
        b"%d,%s\n" % (row, ("x" if label is None else label).encode()) for row in range(40)
    )
    table = read_table(content, name="claims.csv").with_roles({"found": "feature" if label is None else "label"})
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(table.with_positive_values(["yes"]) if label == "yes" else table)
    page = open_app("pages/1_data.py", dataset=dataset.id)

    assert not page.exception
    assert any(sentence in each.value for each in page.markdown)
    train = open_app("pages/3_train.py", dataset=dataset.id)
    assert sentence in train.subheader[0].value


def test_a_reading_under_way_shows_its_progress_and_leaves_the_page_usable(open_app, monkeypatch):
    monkeypatch.setattr("pages.ui.data.upload.jobs_now", lambda workspace: workspace.jobs.list())
    with Workspace.open() as workspace:
        earlier = workspace.datasets.save(load_sample("breast_cancer"), "earlier")
        workspace.jobs.add("a" * 24, "read", "[x](y).csv", {"upload": "b" * 24}, {})
    page = open_app("pages/1_data.py", dataset=earlier.id)

    assert not page.exception
    assert {metric.label: metric.value for metric in page.metric}["Rows"] == "569"
    page.button(key="data_reading_cancel").click().run()
    assert "The reading was cancelled" in page.error[0].value


def test_a_file_that_is_open_by_now_is_not_offered_again(open_app, monkeypatch):
    monkeypatch.setattr("pages.ui.data.upload.jobs_now", lambda workspace: workspace.jobs.list())
    with Workspace.open() as workspace:
        workspace.jobs.add("a" * 24, "read", "sales.csv", {"upload": "b" * 24}, {})
        attempt = workspace.jobs.begin("a" * 24)
    page = open_app("pages/1_data.py")
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table(CSV, name="sales.csv"))
        workspace.jobs.finish(attempt, {"dataset": dataset.id})
    page.query_params["dataset"] = dataset.id

    page.run()

    assert not page.exception
    assert "data_reading_open" not in [each.key for each in page.button]


def test_a_reading_that_ends_elsewhere_is_offered_and_takes_nobody_away(open_app, monkeypatch):
    monkeypatch.setattr("pages.ui.data.upload.jobs_now", lambda workspace: workspace.jobs.list())
    with Workspace.open() as workspace:
        earlier = workspace.datasets.save(load_sample("breast_cancer"), "earlier")
        other = workspace.datasets.save(read_table(CSV, name="sales.csv"))
        workspace.jobs.add("a" * 24, "read", "sales.csv", {"upload": "b" * 24}, {})
        attempt = workspace.jobs.begin("a" * 24)
    page = open_app("pages/1_data.py", dataset=earlier.id)
    with Workspace.open() as workspace:
        workspace.jobs.finish(attempt, {"dataset": other.id})

    page.run()
    assert page.query_params["dataset"] == earlier.id
    page.button(key="data_reading_open").click().run()
    assert not page.exception
    assert page.query_params["dataset"] == other.id


def test_an_upload_that_is_gone_is_asked_for_again(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table(CSV, name="sales.csv"))
    page = open_app("pages/1_data.py", dataset=dataset.id)

    assert "upload the file again" in " ".join(each.value for each in page.caption)


def test_deleting_a_dataset_says_first_what_goes(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table(CSV, name="sales.csv"))
    page = open_app("pages/1_data.py", dataset=dataset.id)
    page.button(key="data_delete").click().run()
    assert any("sales" in each.value for each in page.markdown)
    assert ":red[" in page.button(key="delete_for_good").label

    page.button(key="delete_cancel").click().run()
    assert "delete_for_good" not in [each.key for each in page.button]
    with Workspace.open() as workspace:
        assert workspace.datasets.list() == (dataset,)

    page.button(key="data_delete").click().run()
    page.button(key="delete_for_good").click().run()
    assert not page.exception
    with Workspace.open() as workspace:
        assert workspace.datasets.list() == ()


def test_reading_it_differently_reads_it_again(data_page):
    data_page.file_uploader(key="data_upload_0").upload("odd.csv", b"a;b\n1,5;2\n2,5;3\n").run()
    first = data_page.query_params["dataset"]
    data_page.selectbox(key="data_separator").select("comma")
    data_page.button(key="data_read_again").click().run()

    assert not data_page.exception
    assert data_page.query_params["dataset"] != first
    assert "separator comma" in " ".join(each.value for each in data_page.caption)


def test_a_link_to_a_dataset_of_somebody_else_is_refused(open_app):
    page = open_app("pages/1_data.py", dataset="0123456789abcdef")

    assert not page.exception
    assert "not in your workspace" in page.warning[0].value


def bring(tab, path) -> None:
    """Upload a file and wait until the address names its dataset; an earlier one stays in sight until then."""
    before = tab.page.url
    tab.page.set_input_files("input[type=file]", str(path))
    tab.page.wait_for_url(lambda address: "dataset=" in address and address != before)
    tab.settle()


@pytest.mark.browser
def test_upload_refresh_and_a_shared_link_come_back_to_the_same_rows(shared_server, open_tab, tmp_path):
    server = shared_server
    (tmp_path / "sales.csv").write_bytes(CSV)
    tab = open_tab(server).open("data")

    bring(tab, tmp_path / "sales.csv")
    link = tab.page.url.removeprefix(server.url + "/")
    assert "dataset=" in link
    assert "200" in tab.text

    tab.reload()
    assert "sales.csv" in tab.text
    assert "What was read" in open_tab(server, width=390).open(link).text


@pytest.mark.browser
def test_a_large_file_is_read_in_the_background_and_a_refresh_comes_back_to_it(shared_server, open_tab, tmp_path):
    note = b"large by its letters, " * 6
    rows = b"".join(b"%d,%d,%d,%s\n" % (row, row * 7 % 100, row % 10 == 0, note) for row in range(50_000))
    (tmp_path / "large.csv").write_bytes(b"id,amount,fraud,note\n" + rows)
    tab = open_tab(shared_server).open("data")

    tab.page.set_input_files("input[type=file]", str(tmp_path / "large.csv"))
    tab.page.wait_for_url(lambda address: "reading=" in address)
    tab.page.reload()
    tab.page.locator(".st-key-data_reading, [data-testid=stMetric]").first.wait_for()

    # An earlier dataset stays in sight until the new one is read.
    tab.page.wait_for_url(lambda address: "reading=" not in address, timeout=WORKER_PATIENCE)
    tab.page.get_by_text("50,000").first.wait_for()
    [job] = [job for job in Workspace.open(shared_server.home).jobs.list() if job.title == "large.csv"]
    assert job.worker["detached"]


SUBSCRIBED = b"policy,amount,city,subscribed\n" + b"".join(
    b"%d,%d,%s,%s\n" % (7 * row + 100, row % 50, b"unknown" if row % 3 else b"Bern", b"ja" if row % 9 == 0 else b"")
    for row in range(300)
)


@pytest.fixture
def subscribed_page(data_page):
    return data_page.file_uploader(key="data_upload_0").upload("claims.csv", SUBSCRIBED).run()


def opened_table(page):
    with Workspace.open() as workspace:
        return workspace.datasets.load(page.query_params["dataset"])


def test_a_label_of_one_value_and_gaps_is_offered_with_its_counts_and_used_by_one_click(subscribed_page):
    page = subscribed_page
    assert any("34 rows, empty in 266" in each.value.replace("\\", "") for each in page.markdown)

    page.button(key="data_use_label_0").click().run()

    assert not page.exception
    table = opened_table(page)
    assert (table.column_with("label"), table.positive_values) == ("subscribed", ("ja",))
    assert any("34 rows" in each.value and "266 rows are unlabelled" in each.value for each in page.markdown)


NAMED = b"amount,default,Abgeschlossen\n" + b"".join(
    f"{place},{'yes' if place % 50 == 0 else 'no'},{'ja' if place % 9 == 0 else ''}\n".encode() for place in range(300)
)


def test_a_label_that_was_guessed_by_its_name_is_asked_about_where_another_column_looks_like_one(data_page):
    page = data_page.file_uploader(key="data_upload_0").upload("claims.csv", NAMED).run()
    assert opened_table(page).column_with("label") == "default"
    assert any("Is this right?" in each.value for each in page.markdown)

    page.button(key="data_use_label_0").click().run()

    assert not page.exception
    table = opened_table(page)
    assert (table.column_with("label"), table.positive_values) == ("Abgeschlossen", ("ja",))
    assert table.roles["default"] == "feature"
    assert not any("Is this right?" in each.value for each in page.markdown)


def test_a_label_with_a_plain_name_is_not_asked_about_because_of_features_of_yes_and_no(data_page):
    rows = b"".join(f"{place},{int(place % 9 == 0)},{'Yes' if place % 4 else 'No'}\n".encode() for place in range(300))
    page = data_page.file_uploader(key="data_upload_0").upload("claims.csv", b"amount,is_fraud,partner\n" + rows).run()

    assert opened_table(page).column_with("label") == "is_fraud"
    assert not any("Is this right?" in each.value for each in page.markdown)


def test_a_guessed_label_is_kept_by_one_click(data_page):
    page = data_page.file_uploader(key="data_upload_0").upload("claims.csv", NAMED).run()

    page.button(key="data_keep_label").click().run()

    assert not page.exception
    assert (opened_table(page).column_with("label"), opened_table(page).positive_values) == ("default", ("yes",))
    assert not any("Is this right?" in each.value for each in page.markdown)


def test_the_first_column_shown_is_one_to_learn_from_and_no_identifier(subscribed_page):
    [column] = [each for each in subscribed_page.selectbox if each.label == "Column"]

    assert column.value == "amount"


def test_a_proposed_role_is_accepted_by_one_click(subscribed_page):
    page = subscribed_page
    assert page.button(key="data_accept_0").label == "Accept: id"

    page.button(key="data_accept_0").click().run()

    assert not page.exception
    assert opened_table(page).roles["policy"] == "id"


def test_a_missing_mark_shows_what_changes_and_makes_a_new_data_set(subscribed_page):
    page = subscribed_page
    first = page.query_params["dataset"]
    page.session_state["data_types"] = True
    page.run()
    page.multiselect(key="data_edit_missing").select("unknown").run()
    assert opened_table(page).frame["city"].isna().sum() == 0
    page.button(key="data_apply").click().run()

    assert not page.exception
    assert page.query_params["dataset"] != first
    assert opened_table(page).frame["city"].isna().sum() == 200


def test_a_type_is_changed_for_the_columns_that_were_chosen(subscribed_page):
    page = subscribed_page
    page.session_state["data_types"] = True
    page.run()
    page.multiselect(key="data_edit_columns").select("amount").run()
    page.selectbox(key="data_edit_type").select("category").run()
    page.button(key="data_apply").click().run()

    assert not page.exception
    assert opened_table(page).types["amount"] == "category"


def test_a_file_that_comes_again_takes_roles_and_a_copy_of_the_rules_over(open_app):
    with Workspace.open() as workspace:
        earlier = workspace.datasets.save(read_table(SUBSCRIBED, name="claims.csv").with_roles({"subscribed": "label"}))
        rules = workspace.rule_sets.create("claims.csv", '{"schema_version": 1, "rules": []}', dataset=earlier.id)
    page = open_app("pages/1_data.py", dataset=earlier.id)
    page.file_uploader(key="data_upload_0").upload("claims.csv", SUBSCRIBED + b"5000,3,Bern,ja\n").run()
    assert any("was uploaded before" in each.value for each in page.markdown)

    page.button(key="data_carry").click().run()

    assert not page.exception
    assert opened_table(page).column_with("label") == "subscribed"
    with Workspace.open() as workspace:
        copy = workspace.rule_sets.newest_of(page.query_params["dataset"])
        assert (copy.text, copy.id == rules.id) == (rules.text, False)


def test_a_data_set_is_renamed(subscribed_page):
    page = subscribed_page
    page.text_input(key=f"data_name_{page.query_params['dataset']}").set_value("Claims of May").run()
    page.button(key="data_rename").click().run()

    assert not page.exception
    with Workspace.open() as workspace:
        assert [each.name for each in workspace.datasets.list()] == ["Claims of May"]


def test_similar_notices_become_one(open_app):
    columns = [f"c{number}" for number in range(6)]
    lines = [",".join(["unknown" if (row + at) % 2 else "x" for at in range(6)]) for row in range(60)]
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table("\n".join([",".join(columns), *lines]).encode(), name="many"))
    page = open_app("pages/1_data.py", dataset=dataset.id)

    notices = [each.value for each in page.info if "kept as its own category" in each.value]
    assert len(notices) == 1
    assert "5 more like this" in notices[0]


def test_a_role_that_is_changed_in_the_table_leaves_the_table_where_it_is(open_app, monkeypatch):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table(CSV, name="sales.csv"))
    keys = []
    edit = "amount"

    def edited(frame, editable, *, column_config, key, **options):
        keys.append(key)
        return frame.assign(
            role=["ignore" if name == edit else role for name, role in zip(frame.column, frame.role, strict=True)]
        )

    monkeypatch.setattr("pages.ui.data.columns.edit_table", edited)
    page = open_app("pages/1_data.py", dataset=dataset.id)

    assert not page.exception
    assert opened_table(page).roles["amount"] == "ignore"
    assert len(keys) > 1
    assert len(set(keys)) == 1
