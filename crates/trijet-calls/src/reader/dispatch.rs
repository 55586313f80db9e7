//! The entries that each function of the driver makes.

use super::{CallReader, Step};
use crate::accesses::{copy, cuboid, fill, rectangle};
use crate::captures::GraphPart;
use crate::file::Call;
use crate::streams::StreamKey;
use trijet_cupti::call_file::{NOT_READY, WORDS_MAX};
use trijet_ledger::base::ledger::{Declared, Engine, Place, StreamWork, Waited};

const DEVICE: Place = Place::Device;
const HOST: Place = Place::Pageable;
/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`: in a capture, the event is one outside
/// of it.
const EXTERNAL: u64 = 1;

impl CallReader {
    /// Reads a call that is no launch of a kernel.
    pub(super) fn call(&mut self, call: &Call<'_>, name: &str, add: &mut impl FnMut(Step)) {
        let word = |at| call.word(at);
        // A capture that became invalid ends with an error, and without a graph.
        if name == "cuStreamEndCapture" {
            let graph = Some(word(1)).filter(|graph| call.code == 0 && *graph != 0);
            return self.graphs.end(Self::key(call, word(0)), graph);
        }
        if call.code != 0 && call.code != NOT_READY {
            return;
        }
        let is_done = call.code == 0;
        match name {
            "cuStreamCreate" | "cuStreamCreateWithPriority" => {
                self.streams.create(word(0), call.context, word(1));
            }
            "cuGreenCtxStreamCreate" => {
                self.streams.create(word(0), call.context, word(2));
            }
            "cuStreamDestroy_v2" => {
                self.graphs.forget_stream(StreamKey::Created(word(0)));
                self.streams.destroy(word(0));
            }
            "cuStreamSynchronize" | "cuStreamQuery" => {
                self.wait(call, Some(word(0)), Waited::Stream, is_done, add);
            }
            "cuEventSynchronize" | "cuEventQuery" => {
                let is_of_graph = self.of_graphs.contains(&word(0));
                let what = if is_of_graph { Waited::Device } else { Waited::Event(word(0)) };
                self.wait(call, None, what, is_done, add);
            }
            // The time between two events is known when both are complete.
            "cuEventElapsedTime" | "cuEventElapsedTime_v2" => {
                for event in [word(1), word(2)] {
                    self.wait(call, None, Waited::Event(event), is_done, add);
                }
            }
            "cuCtxSynchronize" | "cuCtxSynchronize_v2" => {
                self.wait(call, None, Waited::Device, is_done, add);
            }
            "cuEventRecord" => self.record(call, (word(0), word(1)), false, add),
            "cuEventRecordWithFlags" => {
                self.record(call, (word(0), word(1)), word(2) & EXTERNAL != 0, add);
            }
            "cuStreamWaitEvent" => {
                self.wait_in_stream(call, (word(0), word(1)), word(2) & EXTERNAL != 0, add);
            }
            "cuEventDestroy_v2" => self.destroy_event(call, word(0), add),
            _ if name.starts_with("cuGraph") => self.graph_call(call, name, add),
            _ if name.starts_with("cuStreamBeginCapture") => self.begin_capture(call, name),
            _ if name.starts_with("cuStreamUpdateCapture") => {
                if let Some(capture) = self.graphs.capture(Self::key(call, word(0))) {
                    capture.work.nodes.lose();
                }
            }
            _ if name.starts_with("cuMemcpy") || name.starts_with("cuMemset") => {
                self.copy_call(call, name, add);
            }
            "cuLaunchHostFunc" | "cuStreamAddCallback" => self.host_function(call, add),
            _ if name.starts_with("cuStreamWriteValue") => {
                let bytes = if name.contains("32") { 4 } else { 8 };
                self.write_value(call, word(0), fill(word(1), 0, 1, bytes, 1), add);
            }
            _ if name.starts_with("cuStreamWaitValue") => self.wait_for_any(call, word(0), add),
            // Which of them are waits, and which are writes, is not recorded.
            _ if name.starts_with("cuStreamBatchMemOp") => {
                self.wait_for_any(call, word(0), add);
                self.signal(call, word(0), add);
            }
            _ if name.starts_with("cuTensorMapEncode") => self.tensors.add(word(0), word(1)),
            "cuWaitExternalSemaphoresAsync" => self.wait_for_any(call, word(3), add),
            "cuSignalExternalSemaphoresAsync" => self.signal(call, word(3), add),
            _ => self.memory_function(call, name, add),
        }
    }

    fn host_function(&mut self, call: &Call<'_>, add: &mut impl FnMut(Step)) {
        let key = Self::key(call, call.word(0));
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add(GraphPart::Unknown, None);
        }
        let on = self.streams.count(key, call.context);
        let mut step = Self::entry(StreamWork::HostFn, Engine::Host, on, call);
        step.op.declared = Declared::Nothing;
        step.op.label = "host function".into();
        self.may_tell = true;
        add(step);
    }

    fn memory_function(&mut self, call: &Call<'_>, name: &str, add: &mut impl FnMut(Step)) {
        let word = |at| call.word(at);
        let range = |at: u64, bytes: u64| at..at.saturating_add(bytes);
        match name {
            "cuMemAlloc_v2" | "cuMemAllocManaged" => {
                self.allocate(call, name, range(word(0), word(1)), DEVICE, add);
            }
            "cuMemAllocPitch_v2" => {
                let bytes = word(1).saturating_mul(word(3));
                self.allocate(call, name, range(word(0), bytes), DEVICE, add);
            }
            "cuMemMap" => self.allocate(call, name, range(word(0), word(1)), DEVICE, add),
            "cuMemAllocHost_v2" | "cuMemHostAlloc" | "cuMemHostRegister_v2" => {
                self.allocate(call, name, range(word(0), word(1)), Place::Pinned, add);
            }
            "cuModuleGetGlobal_v2" | "cuLibraryGetGlobal" | "cuLibraryGetManaged" => {
                self.find(call, name, range(word(0), word(1)), add);
            }
            "cuExternalMemoryGetMappedBuffer" => {
                self.find(call, name, range(word(0), word(3)), add);
            }
            // The size is not known, so the memory has no name. Freed memory loses its addresses.
            "cuIpcOpenMemHandle_v2" => {
                self.memory.allocate(range(word(0), 1), DEVICE);
            }
            "cuMemFree_v2" | "cuMemFreeHost" => self.free(call, word(0), true, add),
            "cuMemHostUnregister" => self.memory.forget(word(0)),
            "cuMemUnmap" => {
                for address in self.memory.within(&range(word(0), word(1))) {
                    self.free(call, address, false, add);
                }
            }
            "cuMemAllocAsync" => {
                self.allocate_in_stream(call, name, word(2), range(word(0), word(1)), add);
            }
            "cuMemAllocFromPoolAsync" => {
                self.allocate_in_stream(call, name, word(3), range(word(0), word(1)), add);
            }
            "cuMemFreeAsync" => self.free_in_stream(call, (word(0), word(1)), add),
            _ => {}
        }
    }

    /// A part of a batch of copies: the stream, the number of copies, and of each copy the target,
    /// the source and the bytes. The copies count as work of the stream one after another.
    fn batch(&mut self, call: &Call<'_>, add: &mut impl FnMut(Step)) {
        let copies = usize::try_from(call.word(1)).unwrap_or(0).min(WORDS_MAX);
        for at in (0..copies).map(|number| 2 + 3 * number) {
            let [to, from, bytes] = [0, 1, 2].map(|word| call.word(at + word));
            let touched = copy((to, HOST), (from, HOST), bytes);
            let label = "copy of a batch";
            self.work(call, call.word(0), StreamWork::Copy, label, touched, add);
        }
    }

    fn copy_call(&mut self, call: &Call<'_>, name: &str, add: &mut impl FnMut(Step)) {
        let word = |at| call.word(at);
        let (copy_of, fill_of) = (StreamWork::Copy, StreamWork::Fill);
        let three = |to, from| copy((word(0), to), (word(1), from), word(2));
        // The stream is the last argument of a function that does not wait.
        let (touched, stream, label) = match name {
            "cuMemcpy" | "cuMemcpyAsync" => (three(HOST, HOST), word(3), "copy"),
            "cuMemcpyHtoD_v2" | "cuMemcpyHtoDAsync_v2" => {
                (three(DEVICE, HOST), word(3), "copy to the device")
            }
            "cuMemcpyDtoH_v2" | "cuMemcpyDtoHAsync_v2" => {
                (three(HOST, DEVICE), word(3), "copy to the host")
            }
            "cuMemcpyDtoD_v2" | "cuMemcpyDtoDAsync_v2" => {
                (three(DEVICE, DEVICE), word(3), "copy within the device")
            }
            "cuMemcpyPeer" | "cuMemcpyPeerAsync" => {
                let touched = copy((word(0), DEVICE), (word(2), DEVICE), word(4));
                (touched, word(5), "copy between devices")
            }
            "cuMemcpy2D_v2" | "cuMemcpy2DUnaligned_v2" | "cuMemcpy2DAsync_v2" => {
                (rectangle(call), word(16), "copy of a rectangle")
            }
            "cuMemcpy3D_v2" | "cuMemcpy3DAsync_v2" => (cuboid(call, 0), word(25), "copy of a box"),
            // The context in place of a reserved word is the only difference to a box.
            "cuMemcpy3DPeer" | "cuMemcpy3DPeerAsync" => {
                (cuboid(call, 0), word(25), "copy of a box between devices")
            }
            "cuMemcpyWithAttributesAsync" => (three(HOST, HOST), word(4), "copy"),
            _ if name.starts_with("cuMemcpyBatchAsync") => return self.batch(call, add),
            _ => return self.fill_call(call, name, fill_of, add),
        };
        if name.contains("Async") {
            self.work(call, stream, copy_of, label, touched, add);
        } else {
            self.work_now(call, copy_of, label, touched, add);
        }
    }

    fn fill_call(
        &mut self,
        call: &Call<'_>,
        name: &str,
        kind: StreamWork,
        add: &mut impl FnMut(Step),
    ) {
        let word = |at| call.word(at);
        let bytes = match () {
            () if name.contains("D8") => 1,
            () if name.contains("D16") => 2,
            () => 4,
        };
        let is_box = name.contains("2D8") || name.contains("2D16") || name.contains("2D32");
        let (touched, stream) = if is_box {
            (fill(word(0), word(1), bytes, word(3), word(4)), word(5))
        } else {
            (fill(word(0), 0, bytes, word(2), 1), word(3))
        };
        if name.ends_with("Async") {
            self.work(call, stream, kind, "fill", touched, add);
        } else {
            self.work_now(call, kind, "fill", touched, add);
        }
    }
}
