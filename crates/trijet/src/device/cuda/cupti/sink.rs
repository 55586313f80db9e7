//! The file of a recorded process: records are appended, and each name is written once.
#![forbid(unsafe_code)]

use super::layout::Read;
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, ActivityKind, Api, End, NameId};
use crate::trace::process_file;
use std::collections::HashMap;
use std::io::Write;

/// The texts that records refer to.
pub(super) trait Texts {
    /// The name of a kernel, by the address in its record.
    fn kernel(&self, address: u64) -> &[u8];
    /// The name of a function, by its number.
    fn function(&self, api: Api, number: u32) -> Option<&[u8]>;
}

/// The file of a process.
pub(super) struct Sink<W> {
    file: W,
    /// Records that are not in the file yet.
    staged: Vec<u8>,
    names: HashMap<Box<[u8]>, NameId>,
    /// The names of the functions that were looked up.
    functions: HashMap<(Api, u32), Option<NameId>>,
    end: End,
    state: State,
}

/// Whether the file is open for records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A write failed. A reader could not read on behind the missing bytes.
    Failed,
    Ended,
}

impl<W: Write> Sink<W> {
    pub(super) fn new(file: W, process: u32, interface: u32, began: Nanos) -> Self {
        let mut staged = Vec::new();
        process_file::header(&mut staged, process, interface, began);
        Self {
            file,
            staged,
            names: HashMap::new(),
            functions: HashMap::new(),
            end: End::default(),
            state: State::Open,
        }
    }

    pub(super) fn trouble(&mut self, words: &str) {
        if self.state == State::Open {
            process_file::trouble(&mut self.staged, words);
        }
    }

    /// Stages one record.
    pub(super) fn take(&mut self, record: Option<Read>, texts: &impl Texts) {
        if self.state != State::Open {
            return;
        }
        let activity = match record {
            // Tags are not collected for a whole process.
            None | Some(Read::Tag { .. }) => {
                self.end.unknown += 1;
                return;
            }
            Some(Read::Context(info)) => return process_file::context(&mut self.staged, &info),
            Some(Read::Stream(info)) => return process_file::stream(&mut self.staged, &info),
            Some(Read::Plain(activity)) => activity,
            Some(Read::Kernel(activity, address)) => {
                Activity { name: self.named(texts.kernel(address)), ..activity }
            }
            Some(Read::Call(activity, number)) => self.called(activity, number, texts),
        };
        self.end.activities += 1;
        process_file::activity(&mut self.staged, &activity);
    }

    fn called(&mut self, activity: Activity, number: u32, texts: &impl Texts) -> Activity {
        let ActivityKind::Call(api) = activity.kind else { return activity };
        let known = self.functions.get(&(api, number)).copied();
        let name = known.unwrap_or_else(|| {
            let name = texts.function(api, number).and_then(|text| self.named(text));
            self.functions.insert((api, number), name);
            name
        });
        Activity { name, ..activity }
    }

    /// The number of a text. The first call for a text writes it.
    fn named(&mut self, text: &[u8]) -> Option<NameId> {
        let text = &text[..text.len().min(process_file::NAME_BYTES_MAX)];
        if let Some(&id) = self.names.get(text) {
            return Some(id);
        }
        let id = u32::try_from(self.names.len()).ok().map(NameId)?;
        if self.names.len() == process_file::NAMES_MAX {
            return None;
        }
        process_file::name(&mut self.staged, id, text);
        self.names.insert(text.into(), id);
        Some(id)
    }

    /// Counts records that CUPTI had no buffer for.
    pub(super) fn dropped(&mut self, records: u64) {
        self.end.dropped += records;
    }

    /// Writes the staged records, each as a whole.
    pub(super) fn flush(&mut self) {
        if self.state == State::Open && self.file.write_all(&self.staged).is_err() {
            self.state = State::Failed;
        }
        self.staged.clear();
    }

    /// Writes the end of the recording. Later records are ignored.
    pub(super) fn finish(&mut self, declined: u64, host: Nanos, at: Nanos) {
        if self.state != State::Open {
            return;
        }
        process_file::end(&mut self.staged, &End { declined, own_time: host, at, ..self.end });
        self.flush();
        if self.state == State::Open {
            self.state = State::Ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ledger::StreamClass;
    use crate::trace::activity::{ProcessTrace, StreamInfo};
    use std::cell::Cell;
    use std::io;

    /// Names by number, and the number of look-ups of a function.
    struct Numbers(Cell<u32>);

    impl Texts for Numbers {
        fn kernel(&self, address: u64) -> &[u8] {
            if address == 1 { b"first" } else { b"second" }
        }

        fn function(&self, _: Api, number: u32) -> Option<&[u8]> {
            self.0.set(self.0.get() + 1);
            (number == 211).then_some(b"cudaLaunchKernel_v7000")
        }
    }

    fn activity(kind: ActivityKind) -> Activity {
        Activity {
            kind,
            begin: Nanos(1),
            end: Nanos(2),
            bytes: 0,
            name: None,
            device: 0,
            context: 1,
            stream: 7,
            thread: 3,
            correlation: 4,
        }
    }

    fn read(file: &[u8]) -> ProcessTrace {
        process_file::read(file).unwrap().pop().unwrap()
    }

    #[test]
    fn a_name_is_written_once_and_looked_up_once() {
        let (mut file, texts) = (Vec::new(), Numbers(Cell::new(0)));
        let mut sink = Sink::new(&mut file, 5, 6, Nanos(0));
        let kernel = activity(ActivityKind::Kernel);
        let call = activity(ActivityKind::Call(Api::Runtime));
        for _ in 0..3 {
            sink.take(Some(Read::Kernel(kernel, 1)), &texts);
            sink.take(Some(Read::Call(call, 211)), &texts);
            sink.take(Some(Read::Call(call, 9999)), &texts);
            sink.take(Some(Read::Kernel(kernel, 2)), &texts);
            sink.flush();
        }
        sink.take(None, &texts);
        sink.dropped(8);
        sink.finish(9, Nanos(10), Nanos(11));
        let recording = read(&file);
        assert_eq!(recording.names, ["first", "cudaLaunchKernel_v7000", "second"]);
        assert_eq!(texts.0.get(), 2);
        let names: Vec<_> = recording.activities.iter().map(|one| recording.name(one)).collect();
        assert_eq!(names[..4], ["first", "cudaLaunchKernel_v7000", "", "second"]);
        let end = recording.end.unwrap();
        assert_eq!((end.activities, end.unknown, end.dropped, end.declined), (12, 1, 8, 9));
    }

    #[test]
    fn nothing_follows_the_end() {
        let (mut file, texts) = (Vec::new(), Numbers(Cell::new(0)));
        let mut sink = Sink::new(&mut file, 5, 6, Nanos(0));
        let info = StreamInfo { context: 1, stream: 2, class: Some(StreamClass::Blocking) };
        sink.take(Some(Read::Stream(info)), &texts);
        sink.finish(0, Nanos(0), Nanos(0));
        sink.take(Some(Read::Plain(activity(ActivityKind::Fill))), &texts);
        sink.trouble("late");
        sink.flush();
        sink.finish(0, Nanos(0), Nanos(0));
        let recording = read(&file);
        assert_eq!(recording.streams, [info]);
        assert!(recording.activities.is_empty() && recording.troubles.is_empty());
    }

    /// A disk with space for a number of bytes.
    struct Disk(Vec<u8>, usize);

    impl io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = bytes.len().min(self.1 - self.0.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_ends_the_file_and_nothing_is_written_after_the_hole() {
        let texts = Numbers(Cell::new(0));
        let mut disk = Disk(Vec::new(), 100);
        let mut sink = Sink::new(&mut disk, 5, 6, Nanos(0));
        for _ in 0..3 {
            sink.take(Some(Read::Plain(activity(ActivityKind::Fill))), &texts);
            sink.flush();
        }
        sink.file.1 = 1000;
        sink.take(Some(Read::Plain(activity(ActivityKind::Fill))), &texts);
        sink.flush();
        sink.finish(0, Nanos(0), Nanos(0));
        assert_eq!(disk.0.len(), 100);
        assert!(
            process_file::read(disk.0.as_slice()).unwrap_err().to_string().contains("cut inside")
        );
    }
}
