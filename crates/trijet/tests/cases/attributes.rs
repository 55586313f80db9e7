//! Attributes of launches: clusters, cooperative launches and priorities.

use super::words;
use trijet::kernels::{Code, Cost, In, KernelSpec, Out, Ptr, Shape, Tile, Twin};
use trijet::{Device, ErrorKind, Kernel, LaunchConfig, Result};

/// The leader of a cluster loads a value, and all blocks of the cluster read it from its shared memory.
/// `mapa` gives the address of a variable in the shared memory of another block; the second barrier keeps
/// the leader until all have read.
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

/// What a block writes: the value of its leader and its rank.
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

/// A pointer to read and one to write.
type Pair = (Ptr<In<u32>>, Ptr<Out<u32>>);

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
    // SAFETY: it takes (const unsigned*, unsigned*), and each block touches the element of its number,
    // of which there are as many as blocks.
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
        ([12, 1, 1], "a cluster of 12 blocks; 8 are allowed"),
    ] {
        let refused = s.launch_with(&FROM_LEADER, config.cluster(cluster), (&x, &mut y));
        let error = refused.expect_err("no such cluster");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(&format!("`from_leader`: {why}")), "{error}");
    }
    // The stream is as it was, and nothing ran.
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
    let (asked, has) = (format!("launch of {} blocks", room + 1), format!("room for {room}"));
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
