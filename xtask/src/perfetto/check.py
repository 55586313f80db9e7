"""Checks a trace with Perfetto's own classes.

Usage: check.py TRACE. No field may be unknown to the classes, every slice must begin and end on a
track with a description, and every arrow must have two ends.
"""

import sys
from collections import Counter

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent


def known(message):
    """Fails if a message has a field that the classes do not have."""
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, f"unknown field in {message}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if field.is_repeated else [value]:
            known(part)


def main(path):
    with open(path, "rb") as file:
        trace = Trace.FromString(file.read())
    known(trace)
    tracks, depth, slices, events = {}, Counter(), Counter(), Counter()
    leave, reach, units, marks = Counter(), Counter(), {}, 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, "a track has two descriptions"
            assert not track.parent_uuid or track.parent_uuid in tracks, "the parent of a track has no earlier description"
            tracks[track.uuid] = track
            if track.HasField("counter"):
                units[track.name] = track.counter.unit
            if not track.parent_uuid:
                explicit = TrackDescriptor.ChildTracksOrdering.Value("EXPLICIT")
                assert track.child_ordering == explicit, "the children of a track have no explicit order"
            continue
        event = packet.track_event
        assert event.track_uuid in tracks, "an event is on a track without a description"
        events[event.track_uuid] += 1
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.name and list(event.categories), "a slice lacks a name or a category"
            assert all(note.name for note in event.debug_annotations), "a note has no name"
            depth[event.track_uuid] += 1
            slices[tracks[event.track_uuid].name] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
        elif event.type == TrackEvent.TYPE_INSTANT:
            assert event.name.startswith("error["), f"the mark {event.name} is not a finding"
            assert event.debug_annotations[0].string_value.count("\n") > 1, "a finding has no report"
            marks += 1
        else:
            assert event.type == TrackEvent.TYPE_COUNTER, f"an event of type {event.type}"
            assert event.counter_value >= 0, "a counter is negative"
        assert 0 <= depth[event.track_uuid] <= 1, "slices of a track overlap, or one ends before it begins"
        leave.update(event.flow_ids)
        reach.update(event.terminating_flow_ids)
    assert not +depth, "a slice has no end"
    folders = {track.parent_uuid for track in tracks.values()}
    empty = [track.name for uuid, track in tracks.items() if uuid not in folders | set(events)]
    assert not empty, f"tracks without content: {empty}"
    assert leave == reach and set(leave.values()) <= {1}, "an arrow does not have exactly two ends"
    assert leave, "there are no arrows of a critical path"
    assert marks > 0, "the hazard of the run has no mark"
    # The run numbers its streams and threads, so only the start of a name is known.
    for name in ("upload", "compute", "download", "stream ", "host thread "):
        there = sum(count for track, count in slices.items() if track.startswith(name))
        assert there > 0, f"there are no slices on a track {name}"
    for name in ("bytes in flight", "queue depth"):
        assert name in units, f"there is no counter {name}"
    print(f"{len(trace.packet)} packets, {len(tracks)} tracks, {sum(slices.values())} slices, "
          f"{len(leave)} arrows, {marks} hazards")


main(sys.argv[1])
