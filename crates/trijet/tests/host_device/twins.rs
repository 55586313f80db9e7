//! Twins that ask for other arguments than their kernel declares. A twin that gets a tuple cannot
//! do this.

use bytemuck::Pod;
use trijet::kernels::{
    ArgBlock, Code, Cost, Dynamic, KernelSpec, Ptr, Read, Shape, Tile, Twin, TwinParams, Update,
    Write,
};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Args, Device, ErrorKind, Kernel, Result};

/// A twin's function.
type Body = fn(&mut Tile<'_>);

type Params = (Read<f32>, Write<f32>, f32);

const ARGUMENTS: &str =
    "its arguments are 0: Read<f32> (its length is 1), 2: Write<f32> (its length is 3), 4: f32";

fn spec(run: fn(&mut Tile<'_>)) -> KernelSpec {
    let twin = Twin { tile_elements: |_| 2, run, cost: |_| Cost { bytes: 0, ops: 0 } };
    let spec = KernelSpec::new("gain", Code::ptx(""), Shape::Elements { per_thread: 1 });
    spec.twin(twin)
}

/// A kernel without code. Only its twin runs.
fn declared<P>(spec: KernelSpec) -> Kernel<P> {
    // SAFETY: the kernel runs on host devices only, which have no code that could break a promise.
    unsafe { Kernel::declare(spec) }
}

fn device() -> Result<Device> {
    let executor = Executor::Virtual(Order::Greedy);
    Ok(Device::host(HostConfig::new().executor(executor))?.remove(0))
}

/// The error of a kernel with the parameters [`Params`] and this twin.
fn refused(run: fn(&mut Tile<'_>)) -> Result<String> {
    let kernel: Kernel<Params> = declared(spec(run));
    let s = device()?.stream()?;
    let (x, mut y) = (s.upload(&[1.0, 2.0, 3.0])?, s.alloc(3)?);
    let outcome = s.launch(&kernel, (&x, &mut y, 2.0)).and_then(|()| s.synchronize());
    let error = outcome.expect_err("the twin does not fit the kernel");
    assert_eq!(error.kind(), ErrorKind::Launch);
    Ok(error.to_string())
}

fn scalar<T: Pod, const INDEX: usize>(tile: &mut Tile<'_>) {
    let value = tile.scalar::<T>(INDEX);
    assert!(size_of_val(&value) > 0, "a scalar has bytes");
}

fn read<T: Pod, const INDEX: usize>(tile: &mut Tile<'_>) {
    assert!(!tile.read::<T>(INDEX).is_empty(), "the spans have elements");
}

fn write<T: Pod, const INDEX: usize>(tile: &mut Tile<'_>) {
    assert!(!tile.write::<T>(INDEX).is_empty(), "the spans have elements");
}

/// The bytes of an argument are a value of every type of this size. Only the declared type gives
/// the value that was passed to the launch.
#[test]
fn a_twin_that_asks_for_another_type_ends_with_the_list_of_arguments() -> Result<()> {
    let cases: [(Body, &str); 10] = [
        (scalar::<f64, 4>, "`scalar::<f64>(4)`: argument 4 is f32, a scalar"),
        (scalar::<u32, 4>, "`scalar::<u32>(4)`: argument 4 is f32, a scalar"),
        (scalar::<u64, 0>, "`scalar::<u64>(0)`: argument 0 is Read<f32>, a span that is only read"),
        (scalar::<f32, 1>, "`scalar::<f32>(1)`: argument 1 is the length of argument 0"),
        (scalar::<f32, 5>, "`scalar::<f32>(5)`: there is no argument 5"),
        (read::<u8, 0>, "`read::<u8>(0)`: argument 0 is Read<f32>, a span that is only read"),
        (read::<f32, 2>, "`read::<f32>(2)`: argument 2 is Write<f32>, a written span"),
        (write::<u32, 2>, "`write::<u32>(2)`: argument 2 is Write<f32>, a written span"),
        (write::<f32, 0>, "`write::<f32>(0)`: argument 0 is Read<f32>, a span that is only read"),
        (write::<f32, 1>, "`write::<f32>(1)`: argument 1 is the length of argument 0"),
    ];
    for (run, wanted) in cases {
        let text = refused(run)?;
        let (question, cause) = wanted.split_once(": ").expect("a question and its answer");
        let wanted = format!("{question} does not fit the kernel: {cause}; {ARGUMENTS}");
        assert!(text.contains(&wanted), "{text}\n{wanted}");
    }
    Ok(())
}

#[test]
fn a_part_that_is_taken_twice_is_named() -> Result<()> {
    let text = refused(|tile| {
        let (first, second) = (tile.write::<f32>(2), tile.write::<f32>(2));
        first.copy_from_slice(second);
    })?;
    assert!(text.contains("argument 2 was taken before"), "{text}");
    Ok(())
}

/// The arguments that `cost` and `tile_elements` ask for are compared when the kernel is launched,
/// before anything runs.
#[test]
fn a_cost_of_another_type_is_an_error_of_the_launch() -> Result<()> {
    let cost = |args: &ArgBlock| Cost { bytes: args.scalar(4), ops: 0 };
    let twin = Twin { tile_elements: |_| 2, run: |_| (), cost };
    let kernel: Kernel<Params> = declared(spec(|_| ()).twin(twin));
    let s = device()?.stream()?;
    let (x, mut y) = (s.upload(&[1.0])?, s.alloc(1)?);
    let error = s.launch(&kernel, (&x, &mut y, 2.0)).expect_err("the cost reads a u64");
    let wanted = format!(
        "`scalar::<u64>(4)` does not fit the kernel: argument 4 is f32, a scalar; {ARGUMENTS}"
    );
    assert!(error.to_string().contains(&wanted), "{error}");
    Ok(())
}

/// The check of a kernel with dynamic parameters refuses a list by an error, not by a panic.
#[test]
fn a_check_asks_for_scalars_of_unknown_types() -> Result<()> {
    let spec = spec(|_| ()).check(|args| args.try_scalar::<u32>(2).map(|_| ()));
    let kernel: Kernel<Dynamic> = declared(spec);
    let s = device()?.stream()?;
    let mut y = s.alloc::<f32>(1)?;
    s.launch(&kernel, Args::new().write(y.view_mut())?.scalar(1_u32)?)?;
    let error = s.launch(&kernel, Args::new().write(y.view_mut())?.scalar(1_i32)?);
    let text = error.expect_err("the check wants a u32").to_string();
    assert!(text.contains("argument 2 is i32, a scalar"), "{text}");
    Ok(())
}

/// The values of every form of argument, in the order of the parameters.
#[test]
fn a_tuple_has_each_argument_as_its_parameter_names_it() -> Result<()> {
    type All = (u8, Ptr<Read<u16>>, Ptr<Update<u32>>, [u64; 2], Read<f32>, Write<f32>);
    let run: fn(&mut Tile<'_>) = |tile| {
        let (a, b, c, d, e, f) = tile.args::<All>();
        c.iter_mut().for_each(|c| *c += u32::from(a) + u32::from(b[0]));
        f.iter_mut().zip(&e[tile.first..]).for_each(|(f, e)| *f = e * d[1] as f32);
    };
    let kernel: Kernel<All> = declared(spec(run));
    let s = device()?.stream()?;
    let (b, mut c) = (s.upload(&[10_u16])?, s.upload(&[100_u32, 200, 300])?);
    let (e, mut f) = (s.upload(&[1.0_f32, 2.0, 3.0])?, s.alloc(3)?);
    s.launch(&kernel, (1_u8, &b, &mut c, [7, 3], &e, &mut f))?;
    assert_eq!(s.download(&c)?, [111, 211, 311]);
    assert_eq!(s.download(&f)?, [3.0, 6.0, 9.0]);
    Ok(())
}

fn takes<P: TwinParams>(tile: &mut Tile<'_>) {
    drop(tile.args::<P>());
}

#[test]
fn a_tuple_of_other_parameters_ends_with_the_list_of_arguments() -> Result<()> {
    let cases: [(Body, &str); 4] = [
        (takes::<(Read<f32>, Write<f32>, f64)>, "`scalar::<f64>(4)` does not fit"),
        (takes::<(Write<f32>, Read<f32>, f32)>, "`write::<f32>(0)` does not fit"),
        (takes::<(Read<f32>, Write<f32>)>, "the twin takes 4 arguments, but the kernel has 5"),
        (takes::<(Read<f32>, Write<f32>, f32, f32)>, "there is no argument 5"),
    ];
    for (run, wanted) in cases {
        let text = refused(run)?;
        assert!(text.contains(wanted) && text.contains(ARGUMENTS), "{text}\n{wanted}");
    }
    Ok(())
}
