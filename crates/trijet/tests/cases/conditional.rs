//! Operations that a graph performs on a condition: once, or repeatedly while the condition is
//! true.

use trijet::graph::{Graph, Recording};
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Update, Write};
use trijet::{Buffer, Device, ErrorKind, Kernel, LaunchConfig, Result, Stream, Uses};

/// `above` tells whether the sum of squares exceeds a bound, and `scale` multiplies each element.
const CODE: &str = r#"
extern "C" __global__ void above(float bound, const float* x, unsigned long long n, unsigned* flag, unsigned long long) {
    float sum = 0;
    for (unsigned long long i = 0; i < n; i++) sum += x[i] * x[i];
    flag[0] = sum > bound;
}
extern "C" __global__ void scale(float by, float* x, unsigned long long n) {
    for (unsigned long long i = 0; i < n; i++) x[i] *= by;
}
"#;

fn free(_: &ArgBlock) -> Cost {
    Cost { bytes: 0, ops: 0 }
}

static ABOVE: Kernel<(f32, Read<f32>, Write<u32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        let (bound, x) = (tile.scalar::<f32>(0), tile.read::<f32>(1));
        tile.write::<u32>(3)[0] = u32::from(x.iter().map(|x| x * x).sum::<f32>() > bound);
    };
    let twin = Twin { tile_elements: |_| 1, run, cost: free };
    let check = |args: &ArgBlock| match args.spans()[1].elements {
        1 => Ok(()),
        elements => Err(format!("the flag has {elements} elements")),
    };
    let spec = KernelSpec::new("above", Code::source(CODE), Shape::Given(|_, _| Ok(())));
    // SAFETY: it takes (float, const float*, u64, unsigned*, u64), and writes one element, which
    // the check demands.
    unsafe { Kernel::declare(spec.check(check).twin(twin)) }
};

static SCALE: Kernel<(f32, Update<f32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        let by = tile.scalar::<f32>(0);
        tile.write::<f32>(1).iter_mut().for_each(|x| *x *= by);
    };
    let twin = Twin { tile_elements: |_| 1 << 20, run, cost: free };
    let spec = KernelSpec::new("scale", Code::source(CODE), Shape::Given(|_, _| Ok(())));
    // SAFETY: it takes (float, float*, u64), and stays within the length.
    unsafe { Kernel::declare(spec.twin(twin)) }
};

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);
const BOUND: f32 = 100.0;
const LEN: usize = 50;

/// Whole numbers, whose squares and sums are exact.
fn numbers(value: f32) -> Vec<f32> {
    (0..LEN).map(|at| if at % 5 == 0 { value } else { 0.0 }).collect()
}

fn sum_of_squares(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum()
}

/// A graph over `(flag, x)`. It makes x smaller, and then sets the flag if x is still too large.
fn lower(device: &Device, by: f32, flag: &mut Buffer<u32>, x: &mut Buffer<f32>) -> Result<Graph> {
    device.record(|g| {
        g.argument(flag)?;
        g.argument(x)?;
        let s = g.stream()?;
        s.launch_with(&SCALE, ONE, (by, &mut *x))?;
        s.launch_with(&ABOVE, ONE, (BOUND, &*x, flag))
    })
}

fn both<'a>(flag: &'a mut Buffer<u32>, x: &'a mut Buffer<f32>) -> Uses<'a> {
    Uses::new().write(flag.view_mut()).write(x.view_mut())
}

/// Tests whether x is too large, and makes x smaller by a graph, once or until it is small enough.
fn clip(
    g: &Recording,
    body: &mut Graph,
    (flag, x): (&mut Buffer<u32>, &mut Buffer<f32>),
    repeats: bool,
) -> Result<()> {
    g.argument(flag)?;
    g.argument(x)?;
    let s = g.stream()?;
    s.launch_with(&ABOVE, ONE, (BOUND, &*x, &mut *flag))?;
    match repeats {
        true => s.launch_graph_while(0, body, both(flag, x)),
        false => s.launch_graph_if(0, body, both(flag, x)),
    }
}

fn clipped(mut x: Vec<f32>, by: f32, repeats: bool) -> Vec<f32> {
    while sum_of_squares(&x) > BOUND {
        x.iter_mut().for_each(|x| *x *= by);
        if !repeats {
            break;
        }
    }
    x
}

/// Uses two streams and two sets of memory. A launch with other memory makes the graph anew. Each
/// launch is in order with the work of other streams on its memory.
pub(crate) fn operations_on_a_condition_are_performed_as_often_as_it_holds(
    device: &Device,
) -> Result<()> {
    let streams = [device.stream()?, device.stream()?];
    for repeats in [false, true] {
        let mut flags = [streams[0].alloc_zeroed::<u32>(1)?, streams[1].alloc_zeroed::<u32>(1)?];
        let mut xs = [streams[0].upload(&numbers(1.0))?, streams[1].upload(&numbers(1.0))?];
        let mut body = lower(device, 0.5, &mut flags[0], &mut xs[0])?;
        let first = (&mut flags[0], &mut xs[0]);
        let mut graph = device.record(|g| clip(g, &mut body, first, repeats))?;
        assert_eq!(graph.len(), 2, "the operations on the condition are one");
        let mut by = 0.5;
        for (turn, value) in [1.0, 4.0, 64.0, 3.0, 1024.0, 0.0, 16.0].into_iter().enumerate() {
            let (memory, stream) = (turn / 2 % 2, turn % 2);
            if turn == 4 {
                // The recording enqueues the same operations with another value in the body.
                by = 0.25;
                let mut body = lower(device, by, &mut flags[memory], &mut xs[memory])?;
                let again = (&mut flags[memory], &mut xs[memory]);
                device.record_again(&mut graph, |g| clip(g, &mut body, again, repeats))?;
            }
            let h = numbers(value);
            xs[memory] = streams[1 - stream].upload(&h)?;
            let s: &Stream = &streams[stream];
            s.launch_graph(&mut graph, both(&mut flags[memory], &mut xs[memory]))?;
            let found = streams[1 - stream].download(&xs[memory])?;
            assert_eq!(found, clipped(h, by, repeats), "value {value}, repeats: {repeats}");
        }
    }
    Ok(())
}

/// The body has two streams. They copy to and from page-locked memory and within the device, and
/// fill.
pub(crate) fn copies_and_fills_are_performed_on_a_condition(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let mut flag = s.alloc_zeroed::<u32>(1)?;
    let (mut from, mut to) = (device.pinned::<f32>(LEN)?, device.pinned::<f32>(LEN)?);
    let [mut x, mut y] = [s.alloc_zeroed::<f32>(LEN)?, s.alloc_zeroed::<f32>(LEN)?];
    let mut body = device.record(|g| {
        g.argument(&flag)?;
        g.argument(&from)?;
        g.argument(&to)?;
        g.argument(&x)?;
        g.argument(&y)?;
        let (a, b) = (g.stream()?, g.stream()?);
        a.copy(&from, &mut x)?;
        b.copy(&x, &mut y)?;
        a.copy(&y.slice(5..), &mut to.slice_mut(5..))?;
        b.fill_bytes(&mut x, 0)
    })?;
    let mut graph = device.record(|g| {
        g.argument(&flag)?;
        g.argument(&from)?;
        g.argument(&to)?;
        g.argument(&x)?;
        g.argument(&y)?;
        let all = Uses::new().read(flag.view()).read(from.view()).write(to.view_mut());
        g.stream()?.launch_graph_if(0, &mut body, all.write(x.view_mut()).write(y.view_mut()))
    })?;
    for (is_set, value) in [(0_u32, 2.0), (1, 3.0), (0, 4.0), (9, 5.0)] {
        flag = s.upload(&[is_set])?;
        from.write()?.fill(value);
        to.write()?.fill(-1.0);
        x = s.upload(&[1.0_f32; LEN])?;
        let all = Uses::new().read(flag.view()).read(from.view()).write(to.view_mut());
        s.launch_graph(&mut graph, all.write(x.view_mut()).write(y.view_mut()))?;
        let (copied, filled) = if is_set != 0 { (value, 0.0) } else { (-1.0, 1.0) };
        assert_eq!(to.read()?[..5], [-1.0; 5]);
        assert_eq!(to.read()?[5..], [copied; LEN - 5], "{is_set} and {value}");
        assert_eq!(s.download(&x)?, [filled; LEN], "{is_set} and {value}");
    }
    Ok(())
}

/// A condition is in the body of another condition. Memory of the graph is in both bodies.
pub(crate) fn conditions_are_within_each_other(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (mut outer, mut inner) = (s.alloc_zeroed::<u32>(1)?, s.alloc_zeroed::<u32>(1)?);
    let mut x = s.upload(&numbers(1.0))?;
    let mut body = lower(device, 0.5, &mut inner, &mut x)?;
    let mut middle = device.record(|g| {
        g.argument(&outer)?;
        g.argument(&inner)?;
        g.argument(&x)?;
        let s = g.stream()?;
        let mut own = s.alloc::<f32>(LEN)?;
        s.copy(&x, &mut own)?;
        s.launch_with(&ABOVE, ONE, (4.0 * BOUND, &own, &mut inner))?;
        s.launch_graph_while(0, &mut body, both(&mut inner, &mut x))
    })?;
    let mut graph = device.record(|g| {
        g.argument(&outer)?;
        g.argument(&inner)?;
        g.argument(&x)?;
        let all = Uses::new().read(outer.view()).write(inner.view_mut()).write(x.view_mut());
        g.stream()?.launch_graph_if(0, &mut middle, all)
    })?;
    for (is_set, value) in [(0_u32, 64.0), (1, 64.0), (7, 6.0), (1, 2.0)] {
        outer = s.upload(&[is_set])?;
        x = s.upload(&numbers(value))?;
        let all = Uses::new().read(outer.view()).write(inner.view_mut()).write(x.view_mut());
        s.launch_graph(&mut graph, all)?;
        let begins = is_set != 0 && sum_of_squares(&numbers(value)) > 4.0 * BOUND;
        let wanted = if begins { clipped(numbers(value), 0.5, true) } else { numbers(value) };
        assert_eq!(s.download(&x)?, wanted, "{is_set} and {value}");
    }
    Ok(())
}

pub(crate) fn what_has_no_condition_is_refused(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (mut flag, mut x) = (s.alloc_zeroed::<u32>(1)?, s.upload(&numbers(1.0))?);
    let mut body = lower(device, 0.5, &mut flag, &mut x)?;
    let error = s.launch_graph_if(0, &mut body, both(&mut flag, &mut x)).expect_err("no recording");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("the stream belongs to no recording"), "{error}");
    let mut told = |condition: usize, body: &mut Graph, kind: ErrorKind, why: &str| {
        let error = device
            .record(|g| {
                g.argument(&flag)?;
                g.argument(&x)?;
                g.stream()?.launch_graph_while(condition, body, both(&mut flag, &mut x))
            })
            .expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(why), "{error}, not {why}");
    };
    let invalid = ErrorKind::InvalidValue;
    told(1, &mut body, invalid, "the condition, argument 1, is");
    told(2, &mut body, invalid, "the condition is argument 2, but the graph has 2 arguments");
    let arguments = |g: &Recording| -> Result<()> {
        g.argument(&s.alloc_zeroed::<u32>(1)?)?;
        g.argument(&s.alloc_zeroed::<f32>(LEN)?)
    };
    let mut empty = device.record(arguments)?;
    told(
        0,
        &mut empty,
        invalid,
        "the graph has no operations, so it cannot be the body of a conditional node",
    );
    let mut calls = device.record(|g| {
        arguments(g)?;
        g.host_fn(&g.stream()?, || ())
    })?;
    told(0, &mut calls, ErrorKind::Unsupported, "a host function in a conditional node");
    Ok(())
}
