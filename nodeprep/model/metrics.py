"""One page of Prometheus metrics."""

from __future__ import annotations

from nodeprep.model.base import Record


class MetricSample(Record, frozen=True):
    name: str
    """With its suffix: `vllm:num_preemptions_total`."""
    labels: dict[str, str]
    """Untrusted text."""
    value: float
    timestamp_s: float | None = None


class MetricsPage(Record, frozen=True):
    samples: tuple[MetricSample, ...]
    types: dict[str, str] = {}
    """Metric family -> `counter`, `gauge`, `histogram`..."""
    skipped_lines: int = 0
    """Lines that are neither a sample nor a comment."""

    def named(self, *names: str) -> tuple[MetricSample, ...]:
        """The samples of any of these names, in the order of the page."""
        return tuple(sample for sample in self.samples if sample.name in names)
