//! Modules, their kernels, and launches.

use super::api::{CuLaunchConfig, Handle, LaunchAttribute, need};
use super::arguments::with_pointers;
use super::context::{CudaDriver, cu, device_of, pack, raw};
use super::error::{INVALID_VALUE, NOT_FOUND, check};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{FunctionHandle, Image, Launch, ModuleHandle, StreamHandle};
use crate::device::image::check_binary;
use crate::device::launch_config::LaunchConfig as Config;
use crate::device::launch_config::Occupancy;
use crate::device::twin::Twin;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;

const MAX_DYNAMIC_SHARED: c_int = 8;
/// Members of `CUlaunchAttributeID`.
const COOPERATIVE: c_uint = 2;
const CLUSTER_DIMENSION: c_uint = 4;
const PRIORITY: c_uint = 8;
const PROGRAMMATIC_STREAM_SERIALIZATION: c_uint = 6;
/// Maximum number of attributes of a launch: one of each kind.
const ATTRIBUTES_MAX: usize = 4;
/// The number of zeros that are appended to a text. The driver reads as many bytes as the header of
/// a binary has, even if the text is shorter.
const HEADER_BYTES: usize = 64;
/// Maximum number of parameters: `cuda.h` allows 32764 bytes for all parameters.
const PARAMETERS_MAX: usize = 32_764;
const JIT_ERROR_BUFFER: c_int = 5;
const JIT_ERROR_BUFFER_BYTES: c_int = 6;

/// The messages of the driver's compiler, each with its site as FILE:LINE. The compiler names a
/// line of the PTX. If the PTX was `compiled` from a source, this line is replaced by a line of the
/// source. The last `.loc` before the line of the PTX names the line of the source.
fn with_lines(words: &str, file: &str, compiled: Option<&str>) -> String {
    const PLACE: &str = "ptxas application ptx input, line ";
    let placed = |line: &str| {
        let (number, rest) = line.strip_prefix(PLACE)?.split_once(';')?;
        let number: usize = number.parse().ok()?;
        let site = match compiled {
            Some(ptx) => source_line(ptx, number)?,
            None => number.to_string(),
        };
        Some(format!("{file}:{site}: {}", rest.trim_start()))
    };
    let lines = words.lines().map(|line| placed(line).unwrap_or_else(|| line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The line of the source that line `number` of the PTX comes from. It is the second number of the
/// last `.loc` at or before line `number`.
fn source_line(ptx: &str, number: usize) -> Option<String> {
    let noted = ptx.lines().take(number).filter_map(|line| {
        let mut words = line.trim_start().strip_prefix(".loc")?.split_whitespace();
        words.nth(1)
    });
    noted.last().map(str::to_owned)
}

/// The attributes of a launch.
pub(super) struct Attributes {
    all: [LaunchAttribute; ATTRIBUTES_MAX],
    count: usize,
}

impl Attributes {
    pub(super) fn of(config: &Config) -> Self {
        let none = LaunchAttribute { id: 0, pad: 0, value: [0; 16] };
        let mut attributes = Self { all: [none; ATTRIBUTES_MAX], count: 0 };
        if config.cluster != [1; 3] {
            attributes.push(CLUSTER_DIMENSION, &config.cluster);
        }
        if config.cooperative {
            attributes.push(COOPERATIVE, &[1]);
        }
        if let Some(priority) = config.priority {
            attributes.push(PRIORITY, &[priority.cast_unsigned()]);
        }
        if config.dependent {
            attributes.push(PROGRAMMATIC_STREAM_SERIALIZATION, &[1]);
        }
        attributes
    }

    /// The attributes that the configuration sets.
    pub(super) fn used(&self) -> &[LaunchAttribute] {
        &self.all[..self.count]
    }

    fn push(&mut self, id: c_uint, value: &[c_uint]) {
        let attribute = &mut self.all[self.count];
        attribute.id = id;
        attribute.value[..value.len()].copy_from_slice(value);
        self.count += 1;
    }
}

/// The configuration in the form of the driver. This form points to `attributes`.
#[inline]
fn driver_config(
    config: &Config,
    stream: Handle,
    attributes: Option<&mut Attributes>,
) -> CuLaunchConfig {
    let (attrs, count) = match attributes {
        Some(attributes) => (attributes.all.as_mut_ptr(), attributes.count),
        None => (null_mut(), 0),
    };
    CuLaunchConfig {
        grid: config.grid,
        block: config.block,
        shared_bytes: config.shared_bytes,
        stream,
        attrs,
        attr_count: u32::try_from(count).expect("a few attributes"),
    }
}

impl CudaDriver {
    pub(super) fn module_load(
        &self,
        device: DeviceId,
        label: &str,
        image: Image<'_>,
    ) -> Result<ModuleHandle> {
        let refused = |why: &str| {
            let cause = format!("{label}: {why}");
            Error::new(ErrorKind::Compile, "module load", cause).on(device)
        };
        let text;
        let data: *const c_void = match image {
            Image::Ptx(ptx) | Image::Compiled(ptx) if ptx.contains('\0') => {
                return Err(refused("the PTX contains a NUL byte"));
            }
            Image::Ptx(ptx) | Image::Compiled(ptx) => {
                text = [ptx.as_bytes(), &[0; HEADER_BYTES]].concat();
                text.as_ptr().cast()
            }
            Image::Cubin(bytes) => {
                check_binary(bytes).map_err(|why| refused(&why))?;
                bytes.as_ptr().cast()
            }
        };
        let _entered = self.enter("module load", device)?;
        let _relaxed = self.relaxed();
        let mut log = vec![0u8; 8192];
        let mut options = [JIT_ERROR_BUFFER, JIT_ERROR_BUFFER_BYTES];
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        let mut module = null_mut();
        let outcome = cu!(
            self,
            "cuModuleLoadDataEx",
            module_load(&raw mut module, data, 2, options.as_mut_ptr(), values.as_mut_ptr()),
            "`data` is a terminated text, or a binary whose headers stay within its length, by \
             `check_binary`: false for a part of it that the driver finds in another way. The log \
             buffer has the size that is passed with it; all is read \
             and written during the call"
        );
        outcome.map_err(|error| {
            let length = log.iter().position(|b| *b == 0).unwrap_or(0);
            let words = String::from_utf8_lossy(&log[..length]).trim().to_owned();
            let code = error.code();
            let words = match image {
                Image::Ptx(_) => with_lines(&words, label, None),
                Image::Compiled(ptx) => with_lines(&words, label, Some(ptx)),
                Image::Cubin(_) => words,
            };
            let failed = refused(&words).caused_by(error);
            match code {
                Some(code) => failed.with_code(code),
                None => failed,
            }
        })?;
        Ok(ModuleHandle(pack(device, module)))
    }

    pub(super) fn function(
        &self,
        module: ModuleHandle,
        entry: &str,
        shared_bytes: u32,
        _twin: Option<Twin>,
    ) -> Result<FunctionHandle> {
        let device = device_of(module.0);
        let _entered = self.enter("function", device)?;
        let _relaxed = self.relaxed();
        let missing = || {
            let cause = format!("the module has no kernel `{entry}`");
            Error::new(ErrorKind::NotFound, "function", cause).with_code(NOT_FOUND).on(device)
        };
        let name = CString::new(entry).map_err(|_| missing())?;
        let mut function = null_mut();
        cu!(
            self,
            "cuModuleGetFunction",
            module_function(&raw mut function, raw(module.0), name.as_ptr()),
            "the module is live, since modules are never unloaded; `name` is terminated and read \
             during the call"
        )
        .map_err(|e| if e.kind() == ErrorKind::NotFound { missing() } else { e })?;
        if self.api.func_load.is_some() {
            cu!(
                self,
                "cuFuncLoad",
                func_load(function),
                "the function is live, since its module is never unloaded"
            )?;
        }
        if shared_bytes > 0 {
            let bytes = c_int::try_from(shared_bytes).unwrap_or(c_int::MAX);
            cu!(
                self,
                "cuFuncSetAttribute",
                func_set(function, MAX_DYNAMIC_SHARED, bytes),
                "the function is live, since its module is never unloaded; the driver refuses more \
                 memory than a block can have"
            )?;
        }
        Ok(FunctionHandle(pack(device, function)))
    }

    /// The size of each parameter in bytes; `None` for a driver before CUDA 12.4, which does not
    /// report the sizes.
    pub(super) fn parameters(&self, function: FunctionHandle) -> Result<Option<Vec<usize>>> {
        let Some(parameter) = self.api.func_parameter else { return Ok(None) };
        let _entered = self.enter_of("parameters", function.0)?;
        let mut sizes = Vec::new();
        while sizes.len() < PARAMETERS_MAX {
            let (mut offset, mut size) = (0usize, 0usize);
            // SAFETY: the function is live, since its module is never unloaded. The call writes the
            // two local variables, and refuses a number beyond the last parameter.
            let code =
                unsafe { parameter(raw(function.0), sizes.len(), &raw mut offset, &raw mut size) };
            if code == INVALID_VALUE {
                break;
            }
            check(&self.api, "cuFuncGetParamInfo", code)?;
            sizes.push(size);
        }
        Ok(Some(sizes))
    }

    pub(super) fn occupancy(&self, function: FunctionHandle, config: &Config) -> Result<Occupancy> {
        let _entered = self.enter_of("occupancy", function.0)?;
        let threads = c_int::try_from(config.block_threads()).unwrap_or(c_int::MAX);
        let mut blocks = 0;
        cu!(
            self,
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            active_blocks(&raw mut blocks, raw(function.0), threads, config.shared_bytes as usize),
            "the function is live, since its module is never unloaded; the call writes the local variable"
        )?;
        let clusters = match config.cluster {
            [1, 1, 1] => None,
            cluster => Some(self.active_clusters(function, &Config { grid: cluster, ..*config })?),
        };
        Ok(Occupancy { blocks: u32::try_from(blocks).unwrap_or(0), clusters })
    }

    /// The maximum number of clusters that run on the device at once. The grid of the configuration
    /// must have whole clusters, and does not change the result.
    fn active_clusters(&self, function: FunctionHandle, config: &Config) -> Result<u32> {
        let mut attributes = Attributes::of(config);
        let config = driver_config(config, null_mut(), Some(&mut attributes));
        let mut clusters = 0;
        cu!(
            self,
            "cuOccupancyMaxActiveClusters",
            active_clusters(&raw mut clusters, raw(function.0), &raw const config),
            "the function is live, since its module is never unloaded; the configuration and the attributes \
             that it points to are read during the call, which writes the local variable"
        )?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    pub(super) fn launch(&self, stream: StreamHandle, launch: &Launch<'_>) -> Result<()> {
        let _entered = self.enter_of("launch", stream.0)?;
        // Most launches have no attribute. For them no list of attributes is made.
        let mut attributes = launch.config.has_attributes().then(|| Attributes::of(&launch.config));
        let config = driver_config(&launch.config, raw(stream.0), attributes.as_mut());
        with_pointers(&self.api, launch.args, |params| {
            cu!(
                self,
                "cuLaunchKernelEx",
                launch(&raw const config, raw(launch.function.0), params, null_mut()),
                "the driver copies the attributes and the arguments during the call. Their number and sizes are those of \
                 the parameters, which `Loaded` compares: before CUDA 12.4 it cannot, and the author of \
                 the declaration is responsible, for which `Kernel::declare` is unsafe. The tokens of the spans outlive the launch; a replay of a capture would \
                 outlive them, and the layers above refuse a capturing stream"
            )
        })
        .map_err(|error| error.context(format!("kernel `{}`", launch.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_drivers_compiler_have_the_file_and_the_line() {
        let words = "ptxas application ptx input, line 4; error   : Unknown symbol 'x'\n\
                     ptxas fatal   : Ptx assembly aborted due to errors";
        let told = with_lines(words, "gain.ptx", None);
        assert!(
            told.starts_with("gain.ptx:4: error   : Unknown symbol 'x'\nptxas fatal"),
            "{told}"
        );
        let ptx = "one\n\t.loc\t1 7 5\nthree\nfour\n\t.loc 1 9 1\n";
        assert!(with_lines(words, "gain.cu", Some(ptx)).starts_with("gain.cu:7: error"));
        assert_eq!(with_lines(words, "gain.cu", Some("one\n")), words, "no line is noted");
    }
}
