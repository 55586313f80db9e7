//! The operations of the library, and kernels of the user, as steps of a job.

use crate::array::{array, dtype};
use crate::error::{OrRaise, refused};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet_map::{KernelArg, KernelFile, RowRatio, Scalar, Step, load_image};
use trijet_ops::{Image, OPERATIONS, OperationText};

/// An operation with its parameters, or a kernel of the user.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) step: Step,
}

/// An image in memory that an operation combines with each image: the name that stands for it in
/// the text of the operation, its element type, its two lengths and its bytes.
type NamedImage<'py> = (String, String, [u64; 2], Bound<'py, PyAny>);

#[pymethods]
impl Operation {
    /// The operation of a text such as `median:3,reflect`. `images` are images in memory.
    #[staticmethod]
    fn of_text(py: Python<'_>, text: &str, images: Vec<NamedImage<'_>>) -> PyResult<Self> {
        let parsed = OperationText::parse(text).or_raise(py)?;
        if images.is_empty() {
            return Ok(Self { step: Step::Named(parsed) });
        }
        let mut loaded = Vec::new();
        for (name, kind, size, buffer) in images {
            let pixels = PyBuffer::<u8>::get(&buffer)?.to_vec(py)?;
            let _fits = array(py, &kind, size.to_vec())?;
            loaded.push((name, dtype(py, &kind)?, size, pixels));
        }
        let load = |name: &str| match loaded.iter().find(|(own, ..)| own == name) {
            Some((_, dtype, size, pixels)) => Image::new(*dtype, *size, pixels),
            None => load_image(Path::new(name)),
        };
        let operation = parsed.build(&load).or_raise(py)?;
        Ok(Self { step: Step::Own(Arc::from(operation)) })
    }

    /// A kernel in a file or, with `source`, in a text. `args` are pairs of a name and a number;
    /// an `int` is passed as `int`, a `float` as `float`, and a text names the type: `3u64`.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is an option of a kernel")]
    fn of_kernel(
        py: Python<'_>,
        file: PathBuf,
        source: Option<String>,
        entry: String,
        args: Vec<(String, Bound<'_, PyAny>)>,
        halo: Option<u64>,
        out_dtype: Option<&str>,
        out_rows: Option<&str>,
    ) -> PyResult<Self> {
        let args = args.iter().map(|(name, value)| argument(py, name, value));
        let args = args.collect::<PyResult<Vec<_>>>()?;
        let out_rows = out_rows.map(str::parse::<RowRatio>).transpose();
        let out_rows = out_rows.map_err(|cause| refused("kernel", cause)).or_raise(py)?;
        let out_dtype = out_dtype.map(|name| dtype(py, name)).transpose()?;
        let kernel = KernelFile { file, source, entry, args, halo, out_dtype, out_rows };
        Ok(Self { step: Step::Kernel(kernel) })
    }
}

fn argument(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<KernelArg> {
    if let Ok(text) = value.extract::<String>() {
        let parsed = format!("{name}={text}").parse::<KernelArg>();
        return parsed.map_err(|cause| refused("kernel", cause)).or_raise(py);
    }
    let value = if value.is_instance_of::<pyo3::types::PyInt>() {
        Scalar::I32(value.extract()?)
    } else {
        Scalar::F32(value.extract()?)
    };
    Ok(KernelArg { name: name.to_owned(), value })
}

/// The name of a parameter, and its default.
#[derive(IntoPyObject)]
pub(crate) struct ParameterForm(&'static str, Option<&'static str>);

/// The name of an operation, its help, and its parameters.
#[derive(IntoPyObject)]
pub(crate) struct OperationForm(&'static str, &'static str, Vec<ParameterForm>);

/// The operations: the name of each, its help, and the name and the default of each parameter.
#[pyfunction]
pub(crate) fn operations() -> Vec<OperationForm> {
    let parameters = |one: &trijet_ops::Named| {
        let form = |one: &trijet_ops::Parameter| ParameterForm(one.name, one.default);
        one.parameters.iter().map(form).collect()
    };
    OPERATIONS.iter().map(|one| OperationForm(one.name, one.help, parameters(one))).collect()
}
