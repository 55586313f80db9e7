//! Attributes of launches: clusters, cooperative launches and priorities.

use super::words;
use trijet::Uses;
use trijet::kernels::{Code, Cost, KernelSpec, Ptr, Read, Shape, Tile, Twin, Update, Write};
use trijet::{Device, ErrorKind, Kernel, LaunchConfig, Result};

/// The leader of each cluster loads a value, and all blocks of the cluster read this value from the
/// shared memory of the leader. `mapa` computes the address of a variable in the shared memory of
/// another block. The second barrier keeps the leader running until all blocks have read.
const CODE: &str = r#"
extern "C" __global__ void from_leader(const unsigned* x, unsigned* y) {
    __shared__ unsigned loaded;
    unsigned rank, leaders, value;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (rank == 0 && threadIdx.x == 0) loaded = x[blockIdx.x];
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned own = (unsigned)__cvta_generic_to_shared(&loaded);
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(leaders) : "r"(own));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(leaders) : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) y[blockIdx.x] = value + rank;
}
"#;

/// The expected output of a block: the value of its leader and the rank of the block.
fn of_leader(x: &[u32], block: usize, cluster: usize) -> u32 {
    let rank = block % cluster;
    x[block - rank].wrapping_add(u32::try_from(rank).expect("at most 8 blocks"))
}

fn from_leader(tile: &mut Tile<'_>) {
    let cluster = tile.config.cluster[0] as usize;
    let (x, y) = (tile.read::<u32>(0), tile.write::<u32>(1));
    for (block, y) in (tile.first..).zip(y) {
        *y = of_leader(x, block, cluster);
    }
}

/// A pointer to memory that is read, and a pointer to memory that is written.
type Pair = (Ptr<Read<u32>>, Ptr<Write<u32>>);

static FROM_LEADER: Kernel<Pair> = {
    let shape = Shape::Given(|args, config| {
        let blocks = u64::from(config.grid[0]);
        let is_line = config.grid == [config.grid[0], 1, 1] && config.cluster[1..] == [1, 1];
        if is_line && args.spans().iter().all(|span| span.elements == blocks) {
            Ok(())
        } else {
            Err(format!("{blocks} blocks; each has one element"))
        }
    });
    let cost = |_: &trijet::kernels::ArgBlock| Cost { bytes: 0, ops: 0 };
    let spec = KernelSpec::new("from_leader", Code::source(CODE), shape).twin(Twin {
        tile_elements: |_| 3,
        run: from_leader,
        cost,
    });
    // SAFETY: it takes (const unsigned*, unsigned*). Each block touches the element of its number,
    // and there are as many elements as blocks.
    unsafe { Kernel::declare(spec) }
};

/// The largest clusters that the device has, which is 1 for a GPU without clusters.
fn largest_cluster(device: &Device) -> u32 {
    let compute = device.info().compute;
    if compute == (0, 0) || compute >= (9, 0) { 8 } else { 1 }
}

pub(crate) fn blocks_of_a_cluster_read_what_their_leader_loaded(device: &Device) -> Result<()> {
    let streams = [device.stream()?, device.stream()?];
    for (turn, cluster) in [1, 2, 4, 8].into_iter().enumerate() {
        if cluster > largest_cluster(device) {
            break;
        }
        for clusters in [1, 3, 40] {
            let (s, blocks) = (&streams[turn % 2], (cluster * clusters) as usize);
            let x: Vec<u32> = words(5, blocks).iter().map(|word| (word % 1000) as u32).collect();
            let (dx, mut y) = (s.upload(&x)?, s.alloc::<u32>(blocks)?);
            let config = LaunchConfig::new([cluster * clusters, 1, 1], [64, 1, 1]);
            s.launch_with(&FROM_LEADER, config.cluster([cluster, 1, 1]), (&dx, &mut y))?;
            let found = s.download(&y)?;
            for (block, found) in found.into_iter().enumerate() {
                let wanted = of_leader(&x, block, cluster as usize);
                assert_eq!(found, wanted, "block {block} in clusters of {cluster}");
            }
        }
    }
    Ok(())
}

pub(crate) fn a_cluster_that_cannot_be_is_refused_before_the_driver_is_called(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    let (x, mut y) = (s.alloc_zeroed::<u32>(12)?, s.alloc_zeroed::<u32>(12)?);
    let config = LaunchConfig::new([12, 1, 1], [32, 1, 1]);
    for (cluster, why) in [
        ([0, 1, 1], "cluster.x is 0"),
        ([5, 1, 1], "grid.x is 12, which is not a multiple of cluster.x 5"),
        ([1, 2, 1], "grid.y is 1, which is not a multiple of cluster.y 2"),
        ([12, 1, 1], "the cluster has 12 blocks; at most 8 are allowed"),
    ] {
        let refused = s.launch_with(&FROM_LEADER, config.cluster(cluster), (&x, &mut y));
        let error = refused.expect_err("no such cluster");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(&format!("`from_leader`: {why}")), "{error}");
    }
    // The stream is unchanged, and nothing ran.
    assert_eq!(s.download(&y)?, [0; 12]);
    Ok(())
}

pub(crate) fn a_cooperative_launch_is_as_large_as_the_device_has_room(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    let config = |blocks| LaunchConfig::new([blocks, 1, 1], [512, 1, 1]).cooperative();
    let room = device.occupancy(&FROM_LEADER, &config(1))?.blocks * device.info().multiprocessors;
    assert!(room > 0, "a block of 512 threads fits");
    let run = |blocks: u32| -> Result<Vec<u32>> {
        let (x, mut y) = (s.upload(&vec![3_u32; blocks as usize])?, s.alloc(blocks as usize)?);
        s.launch_with(&FROM_LEADER, config(blocks), (&x, &mut y))?;
        s.download(&y)
    };
    assert_eq!(run(room)?, vec![3; room as usize]);
    let error = run(room + 1).expect_err("one more than there is room for");
    assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
    let (asked, has) = (format!("launch has {} blocks", room + 1), format!("runs at most {room}"));
    let words = error.to_string();
    assert!(
        words.contains("from_leader") && words.contains(&asked) && words.contains(&has),
        "{error}"
    );
    Ok(())
}

pub(crate) fn occupancy_falls_with_threads_and_counts_clusters(device: &Device) -> Result<()> {
    let config = |threads| LaunchConfig::new([1; 3], [threads, 1, 1]);
    let blocks = |threads| Ok(device.occupancy(&FROM_LEADER, &config(threads))?.blocks);
    let (small, large): (Result<u32>, Result<u32>) = (blocks(64), blocks(1024));
    let (small, large) = (small?, large?);
    assert!(large >= 1 && small >= 2 * large, "{small} blocks of 64 threads, {large} of 1024");
    assert_eq!(device.occupancy(&FROM_LEADER, &config(64))?.clusters, None);
    let cluster = largest_cluster(device);
    if cluster > 1 {
        let room = device.occupancy(&FROM_LEADER, &config(64).cluster([cluster, 1, 1]))?;
        let clusters = room.clusters.expect("a configuration with clusters");
        let blocks = room.blocks * device.info().multiprocessors;
        assert!(
            clusters >= 1 && clusters * cluster <= blocks,
            "{clusters} clusters, {blocks} blocks"
        );
    }
    let error = device.occupancy(&FROM_LEADER, &config(2048)).expect_err("no such block");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    Ok(())
}

pub(crate) fn a_launch_may_have_a_priority_of_its_own(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let (patient, urgent) = device.info().priorities;
    let (x, mut y) = (s.upload(&[7_u32; 5])?, s.alloc::<u32>(5)?);
    // Values out of range are clamped, as for streams.
    for priority in [patient, urgent, 0, i32::MIN, i32::MAX] {
        let config = LaunchConfig::new([5, 1, 1], [32, 1, 1]).priority(priority);
        s.launch_with(&FROM_LEADER, config, (&x, &mut y))?;
        assert_eq!(s.download(&y)?, [7; 5], "priority {priority}");
    }
    Ok(())
}

/// Each block of `patient` adds one to the word with the number of the block. `patient` lets the
/// next kernel start at once, and waits for the kernel before it. `hasty` does not wait.
const DEPENDENT: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .entry patient(.param .u64 words)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    ld.param.u64 %rd1, [words];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd4], %r2;
    ret;
}
.visible .entry hasty(.param .u64 words)
{
    griddepcontrol.launch_dependents;
    ret;
}
";

fn add_one(tile: &mut Tile<'_>) {
    tile.write::<u32>(0).iter_mut().for_each(|word| *word += 1);
}

const fn counting(name: &'static str) -> Kernel<(Ptr<Update<u32>>,)> {
    let shape = Shape::Given(|args, config| {
        let (blocks, threads) = (config.grid, config.block);
        if [blocks[0], 1, 1] == blocks
            && threads == [1; 3]
            && u64::from(blocks[0]) == args.spans()[0].elements
        {
            Ok(())
        } else {
            Err("one thread for each word".to_owned())
        }
    });
    let cost = |_: &trijet::kernels::ArgBlock| Cost { bytes: 0, ops: 0 };
    let twin = Twin { tile_elements: |_| 5, run: add_one, cost };
    let spec = KernelSpec::new(name, Code::ptx(DEPENDENT), shape).twin(twin);
    // SAFETY: both take one address. A block of `patient` waits, then touches the word of its
    // number, and there are as many words as blocks; `hasty` touches nothing.
    unsafe { Kernel::declare(spec) }
}

static PATIENT: Kernel<(Ptr<Update<u32>>,)> = counting("patient");
static HASTY: Kernel<(Ptr<Update<u32>>,)> = counting("hasty");

pub(crate) fn chains_of_dependent_launches_compute_what_ordinary_ones_do(
    device: &Device,
) -> Result<()> {
    if largest_cluster(device) == 1 {
        return Ok(()); // the PTX is for compute capability 9.0
    }
    let (a, b) = (device.stream()?, device.stream()?);
    let mut words = a.alloc_zeroed::<u32>(300)?;
    let dependent = LaunchConfig::new([300, 1, 1], [1, 1, 1]).dependent();
    let mut count = 0;
    // The launches follow kernels, a fill and a copy, and work on another stream. Some launches
    // start early, and all of them wait.
    for turn in 0..40_u32 {
        let s = if turn % 10 == 9 { &b } else { &a };
        if turn % 8 == 7 {
            s.copy(&s.upload(&vec![count; 300])?, &mut words)?;
        }
        let config =
            if turn % 3 == 2 { LaunchConfig::new([300, 1, 1], [1, 1, 1]) } else { dependent };
        s.launch_with(&PATIENT, config, (&mut words,))?;
        count += 1;
    }
    assert_eq!(b.download(&words)?, vec![count; 300]);
    Ok(())
}

/// In a graph, an edge makes a launch dependent.
pub(crate) fn chains_of_dependent_launches_in_a_graph_compute_what_ordinary_ones_do(
    device: &Device,
) -> Result<()> {
    if largest_cluster(device) == 1 {
        return Ok(()); // the PTX is for compute capability 9.0
    }
    let ordinary = LaunchConfig::new([300, 1, 1], [1, 1, 1]);
    let s = device.stream()?;
    let (mut x, mut y) = (s.alloc_zeroed::<u32>(300)?, s.alloc_zeroed::<u32>(300)?);
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        let (a, b) = (g.stream()?, g.stream()?);
        for turn in 0..40_u32 {
            let config = if turn % 5 == 4 { ordinary } else { ordinary.dependent() };
            // The launches follow launches and a fill, on the same stream and on the other one.
            let s = if turn % 7 > 4 { &b } else { &a };
            if turn == 20 {
                s.fill_bytes(&mut x, 0)?;
            }
            s.launch_with(&PATIENT, config, (&mut x,))?;
            if turn % 3 == 0 {
                b.launch_with(&PATIENT, ordinary.dependent(), (&mut y,))?;
            }
        }
        Ok(())
    })?;
    for launch in 1..=20 {
        let arguments = Uses::new().write(x.view_mut()).write(y.view_mut());
        s.launch_graph(&mut graph, arguments)?;
        assert_eq!(s.download(&x)?, [20; 300], "launch {launch}");
        assert_eq!(s.download(&y)?, [14 * launch; 300], "launch {launch}");
    }
    Ok(())
}

pub(crate) fn a_dependent_launch_of_a_kernel_that_does_not_wait_is_refused(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    let mut words = s.alloc_zeroed::<u32>(5)?;
    let config = LaunchConfig::new([5, 1, 1], [1, 1, 1]);
    if largest_cluster(device) > 1 {
        s.launch_with(&HASTY, config, (&mut words,))?;
        let error = s.launch_with(&HASTY, config.dependent(), (&mut words,)).expect_err("no wait");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        let words = error.to_string();
        assert!(
            words.contains("`hasty`: the PTX of the kernel has no `griddepcontrol.wait`"),
            "{error}"
        );
    }
    let both = config.cooperative().dependent();
    let error = s.launch_with(&PATIENT, both, (&mut words,)).expect_err("not both");
    assert!(error.to_string().contains("cannot be both cooperative and dependent"), "{error}");
    s.synchronize()
}
