"""The metrics of several processes in one answer."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from app.platform.metrics.exposition import Neighbours, merged
from app.platform.metrics.registry import MetricsRegistry


async def test_each_sample_names_its_process_and_a_process_that_does_not_answer_is_shown(
    memory_path: Path,
) -> None:
    registry = MetricsRegistry()
    registry.add_gauge("things", "Things.", lambda: 3)
    one, two = (Neighbours(name, memory_path) for name in "12")

    async def own() -> bytes:
        return registry.render()

    async with one.answered(own):
        async with two.answered(own):
            both = (await one.text()).decode()
        (memory_path / "2.metrics").touch()
        alone = (await one.text()).decode()

    families = {family.name: family.samples for family in text_string_to_metric_families(both)}
    assert [(s.labels, s.value) for s in families["runtally_things"]] == [
        ({"process": "1"}, 3),
        ({"process": "2"}, 3),
    ]
    assert both.count("# TYPE runtally_things gauge") == 1
    assert 'runtally_process_available{process="2"} 1.0' in both
    assert 'runtally_process_available{process="2"} 0.0' in alone
    assert 'runtally_things{process="1"} 3.0' in alone


def test_labels_stay_as_they_are() -> None:
    text = '# HELP a b\n# TYPE a counter\na_total{x="{ } 1"} 2.0\n'

    assert 'a_total{process="7",x="{ } 1"} 2.0\n' in merged({"7": text}).decode()
