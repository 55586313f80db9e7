//! The verbs of captures and of the graphs that result from captures.
#![forbid(unsafe_code)]

use super::machine::{Answer, Failure, Machine, Object};
use super::text::Words;
use crate::device::driver::{Action, CaptureMode, CaptureState, StreamHandle};

impl Machine<'_> {
    /// `begin STREAM global|thread|relaxed`
    pub(super) fn capture_begin(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let mode = match words.word()? {
            "global" => CaptureMode::Global,
            "thread" => CaptureMode::ThreadLocal,
            "relaxed" => CaptureMode::Relaxed,
            _ => return Err(Failure::Unclear),
        };
        self.driver.capture_begin(stream, mode)?;
        Ok(String::new())
    }

    /// `end STREAM GRAPH`
    pub(super) fn capture_end(&mut self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        let graph = self.driver.capture_end(stream)?;
        self.bind(words.word()?, Object::Graph(graph))
    }

    /// `state STREAM`
    pub(super) fn capture_state(&self, words: &mut Words<'_>) -> Answer {
        let (stream, _) = self.stream_named(words)?;
        Ok(match self.driver.capture_state(stream)? {
            CaptureState::None => "none",
            CaptureState::Active => "active",
            CaptureState::Invalidated => "invalidated",
        }
        .to_owned())
    }

    /// `replay GRAPH STREAM`
    pub(super) fn replay(&self, words: &mut Words<'_>) -> Answer {
        let Object::Graph(graph) = self.named(words.word()?)? else {
            return Err(Failure::Unclear);
        };
        let (stream, _) = self.stream_named(words)?;
        self.driver.submit(stream, &Action::Graph { graph, touches: &[], name: "graph" })?;
        Ok(String::new())
    }

    /// Ends the captures that a sequence left open.
    pub(super) fn end_captures(&self) {
        let streams: Vec<StreamHandle> = self
            .objects
            .values()
            .filter_map(|object| match object {
                Object::Stream(stream, _) => Some(*stream),
                _ => None,
            })
            .collect();
        for stream in streams {
            if matches!(self.driver.capture_state(stream), Ok(CaptureState::None)) {
                continue;
            }
            if let Ok(graph) = self.driver.capture_end(stream) {
                // The sequence did not end this capture, so it does not use the graph.
                drop(self.driver.graph_destroy(graph));
            }
        }
    }
}
