from __future__ import annotations

import torch

from crossgcn.kernels.pattern import cut_into_segments


def test_segments_cover_each_entry_once_and_start_with_the_longest() -> None:
    offsets = torch.tensor([0, 3, 3, 33, 40, 54])
    segments = cut_into_segments(offsets, 7)
    lengths = segments.end - segments.begin
    assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)
    places = zip(segments.row.tolist(), segments.begin, segments.end, strict=True)
    covered = [(row, entry) for row, begin, end in places for entry in range(begin, end)]
    expected = [(r, e) for r in range(5) for e in range(int(offsets[r]), int(offsets[r + 1]))]
    assert sorted(covered) == expected


def test_segments_of_more_entries_than_32_bits_can_count() -> None:
    last = 2**31 + 10
    segments = cut_into_segments(torch.tensor([0, 5, last]), 2**30)
    assert sorted(segments.end.tolist()) == [5, 2**30 + 5, 2**31 + 5, last]
    assert int(segments.begin.max()) == 2**31 + 5
