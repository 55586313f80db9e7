//! cuBLAS in a stream and on buffers of the library: ordered and traced like other operations.

use super::cuda;
use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use trijet::check::check;
use trijet::trace::{Op, OpKind, StreamWork};
use trijet::{Error, ErrorKind, Result, Stream, Uses};

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type Destroy = unsafe extern "C" fn(Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
type Sgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    *const f32,
    *mut f32,
    c_int,
) -> c_int;

/// `CUBLAS_OP_N`.
const PLAIN: c_int = 0;

/// The loaded library cuBLAS, and a handle.
struct Blas {
    library: Library,
    handle: Handle,
}

fn answer(verb: &str, status: c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Driver, verb.to_owned(), format!("status {status}")))
}

impl Blas {
    fn open() -> Result<Self> {
        let names = ["libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"];
        // SAFETY: the initialiser of cuBLAS sets up its own state only.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let library = library.expect("the machine has cuBLAS");
        let mut blas = Self { library, handle: null_mut() };
        // SAFETY: one pointer to write. Without a current context cuBLAS takes the context of the
        // first device.
        let status = unsafe { blas.verb::<Create>(b"cublasCreate_v2")(&raw mut blas.handle) };
        answer("cublasCreate", status)?;
        Ok(blas)
    }

    /// A function of cuBLAS.
    fn verb<F: Copy>(&self, name: &[u8]) -> Symbol<'_, F> {
        // SAFETY: the type aliases above have the signatures of `cublas_v2.h`.
        unsafe { self.library.get(name) }.expect("cuBLAS has the symbol")
    }

    /// Enqueues `c = a * b` for square matrices of `n` rows, in column-major order.
    fn gemm(&self, stream: *mut c_void, n: c_int, [a, b, c]: [u64; 3]) -> Result<()> {
        // SAFETY: a live handle and a live stream.
        let status = unsafe { self.verb::<SetStream>(b"cublasSetStream_v2")(self.handle, stream) };
        answer("cublasSetStream", status)?;
        let gemm = self.verb::<Sgemm>(b"cublasSgemm_v2");
        let [a, b] = [a, b].map(|address| address as *const f32);
        let (one, zero, c) = (1.0f32, 0.0f32, c as *mut f32);
        let (one, zero, op) = (&raw const one, &raw const zero, PLAIN);
        // SAFETY: three live matrices of the declared size, and two numbers that are read in the
        // call.
        let status = unsafe { gemm(self.handle, op, op, n, n, n, one, a, n, b, n, zero, c, n) };
        answer("cublasSgemm", status)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: a live handle that is given up.
        let status = unsafe { self.verb::<Destroy>(b"cublasDestroy_v2")(self.handle) };
        assert_eq!(status, 0, "cublasDestroy");
    }
}

/// The uploads are in two streams, the product in a third and the download in a fourth. Only the
/// declared uses order them.
#[test]
fn a_gemm_of_cublas_is_ordered_by_the_memory_that_it_declares() -> Result<()> {
    const N: u8 = 97;
    let _alone = crate::alone();
    let device = cuda();
    let len = usize::from(N) * usize::from(N);
    let blas = Blas::open()?;
    let streams = (0..4).map(|_| device.stream()).collect::<Result<Vec<Stream>>>()?;
    let [first, second, third, fourth] = &streams[..] else { panic!("four streams") };
    let (mut a, mut b) = (device.pinned::<f32>(len)?, device.pinned::<f32>(len)?);
    let value = |at: usize, by: usize| (at * by % 13) as f32 - 6.0;
    a.write()?.iter_mut().enumerate().for_each(|(at, x)| *x = value(at, 7));
    b.write()?.iter_mut().enumerate().for_each(|(at, x)| *x = value(at, 5));
    device.start_trace(first)?;
    let (mut x, mut y) = (first.alloc::<f32>(len)?, second.alloc::<f32>(len)?);
    let mut z = third.alloc::<f32>(len)?;
    let mut h = device.pinned::<f32>(len)?;
    for _ in 0..20 {
        first.copy(&a, &mut x)?;
        second.copy(&b, &mut y)?;
        let addresses = [x.address(), y.address(), z.address()];
        let uses = Uses::new().read(&x).read(&y).write(&mut z);
        // SAFETY: the product reads and writes the declared matrices, in the stream it is given.
        unsafe { third.foreign("gemm", uses, |s| blas.gemm(s, N.into(), addresses))? };
        fourth.copy(&z, &mut h)?;
        first.fill_bytes(&mut x, 0)?;
    }
    let n = usize::from(N);
    let found = h.read()?;
    for (at, found) in found.iter().enumerate() {
        let (row, column) = (at % n, at / n);
        let sum = |sum: f32, k: usize| sum + value(k * n + row, 7) * value(column * n + k, 5);
        // Small integers: every order of the sum is exact.
        assert_eq!(*found, (0..n).fold(0.0, sum), "row {row}, column {column}");
    }
    device.synchronize()?;
    let trace = device.take_trace()?;
    let is_product = |op: &&Op| op.label == "gemm" && op.kind == OpKind::Work(StreamWork::Kernel);
    assert_eq!(trace.ops.iter().filter(is_product).count(), 20);
    assert!(trace.ops.iter().filter(is_product).all(|op| op.times.is_some()), "each has its times");
    let verdict = check(&trace.ops);
    assert!(verdict.is_clean(), "{verdict}");
    Ok(())
}
