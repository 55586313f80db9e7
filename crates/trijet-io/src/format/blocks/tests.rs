//! Rows of drawn arrays in drawn grids, compared with the array.

use super::{BlockEnds, BlockTable, BlocksReader, Grid, StoredBlock};
use crate::format::contract::Reader;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use trijet::Result;
use trijet_codecs::{Chain, Codec, Scratch};

const FILL: [u8; 2] = [0xab, 0xcd];

/// The blocks of an array, in a file. Every fifth block is not stored.
#[derive(Debug)]
struct TestTable {
    file: Arc<File>,
    blocks: BTreeMap<Vec<u64>, (u64, u64)>,
}

impl BlockTable for TestTable {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        let Some(&(offset, bytes)) = self.blocks.get(index) else { return Ok(None) };
        let path = Arc::new(PathBuf::from("blocks"));
        Ok(Some(StoredBlock { file: Arc::clone(&self.file), path, offset, bytes, mask: 0 }))
    }
}

/// All indices below `shape`, in C order.
fn indices(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![Vec::new()], |all, &axis| {
        let longer = |index: Vec<u64>| {
            (0..axis).map(move |at| index.iter().copied().chain([at]).collect::<Vec<_>>())
        };
        all.into_iter().flat_map(longer).collect()
    })
}

/// The value of the element at an index, by the position of the element in C order.
fn value(shape: &[u64], index: &[u64]) -> [u8; 2] {
    let at = shape.iter().zip(index).fold(0, |at, (axis, index)| at * axis + index);
    u16::try_from(at % 65_521).unwrap().to_le_bytes()
}

struct Case {
    shape: Vec<u64>,
    expected: Vec<u8>,
    reader: BlocksReader,
}

fn case(shape: &[u64], block: &[u64], ends: BlockEnds, chain: Chain) -> Case {
    let counts: Vec<u64> = shape.iter().zip(block).map(|(a, b)| a.div_ceil(*b)).collect();
    let mut file = tempfile::tempfile().unwrap();
    let (mut at, mut blocks) = (0, BTreeMap::new());
    let mut missing = Vec::new();
    for (number, index) in indices(&counts).into_iter().enumerate() {
        if number % 5 == 4 {
            missing.push(index);
            continue;
        }
        let first: Vec<u64> = index.iter().zip(block).map(|(i, b)| i * b).collect();
        let own: Vec<u64> = (0..shape.len())
            .map(|axis| match ends {
                BlockEnds::Padded => block[axis],
                BlockEnds::Clipped => block[axis].min(shape[axis] - first[axis]),
            })
            .collect();
        let elements: Vec<u8> = indices(&own)
            .into_iter()
            .flat_map(|inner| {
                let index: Vec<u64> = first.iter().zip(&inner).map(|(a, b)| a + b).collect();
                let is_inside = index.iter().zip(shape).all(|(at, axis)| at < axis);
                if is_inside { value(shape, &index) } else { [0xee; 2] }
            })
            .collect();
        let stored = chain.encode(&elements, &mut Scratch::default()).unwrap();
        let gap = vec![0x77; number % 3];
        file.write_all(&gap).unwrap();
        file.write_all(&stored).unwrap();
        at += gap.len() as u64;
        blocks.insert(index, (at, stored.len() as u64));
        at += stored.len() as u64;
    }
    let expected = indices(shape)
        .into_iter()
        .flat_map(|index| {
            let own: Vec<u64> = index.iter().zip(block).map(|(i, b)| i / b).collect();
            if missing.contains(&own) { FILL } else { value(shape, &index) }
        })
        .collect();
    let grid = Grid::new(shape, block, 2, ends).unwrap();
    let table = Box::new(TestTable { file: Arc::new(file), blocks });
    let reader = BlocksReader::new(grid, chain, FILL.to_vec(), table);
    Case { shape: shape.to_vec(), expected, reader }
}

fn axes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1u64..7, 1u64..5), 1..5)
}

proptest! {
    /// The law: any rows that are read are the rows of the array, for every grid, with blocks that
    /// are encoded and blocks that are not.
    #[test]
    fn rows_of_blocks_are_the_rows_of_the_array(
        axes in axes(), is_padded in any::<bool>(), is_encoded in any::<bool>(),
        cuts in (any::<u64>(), any::<u64>()),
    ) {
        let (shape, block): (Vec<u64>, Vec<u64>) = axes.into_iter().unzip();
        let ends = if is_padded { BlockEnds::Padded } else { BlockEnds::Clipped };
        let codecs = if is_encoded { vec![Codec::Swap { element: 2 }] } else { Vec::new() };
        let Case { shape, expected, reader } = case(&shape, &block, ends, Chain::new(codecs));
        let width = if shape.len() == 1 { 1 } else { shape[shape.len() - 1] };
        let rows = shape.iter().product::<u64>() / width;
        let (first, second) = (cuts.0 % (rows + 1), cuts.1 % (rows + 1));
        let (start, end) = (first.min(second), first.max(second));
        let at = |row: u64| usize::try_from(row * width * 2).unwrap();
        let mut into = vec![0x55; at(end) - at(start)];
        reader.read(start..end, &mut into).unwrap();
        prop_assert_eq!(&into[..], &expected[at(start)..at(end)]);
        let whole = reader.rows_of_blocks();
        prop_assert!((1..=rows.max(1)).contains(&whole));
    }
}

/// A table whose only block claims this place in a file of 100 bytes.
fn claimed(offset: u64, bytes: u64) -> BlocksReader {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[0; 100]).unwrap();
    let blocks = BTreeMap::from([(vec![0, 0], (offset, bytes))]);
    let table = Box::new(TestTable { file: Arc::new(file), blocks });
    let grid = Grid::new(&[4, 4], &[4, 4], 2, BlockEnds::Padded).unwrap();
    BlocksReader::new(grid, Chain::new(vec![Codec::Swap { element: 2 }]), FILL.to_vec(), table)
}

/// The message comes before memory is reserved: a reservation of these lengths would end the
/// process.
#[test]
fn a_block_that_cannot_be_in_the_file_is_damage() {
    for (offset, bytes) in [(0, u64::MAX), (u64::MAX, 32), (69, 32), (0, 101), (0, 1 << 60)] {
        let error = claimed(offset, bytes).read(0..4, &mut [0; 32]).unwrap_err().to_string();
        assert!(error.contains("cannot be right"), "{offset} {bytes}: {error}");
    }
    claimed(68, 32).read(0..4, &mut [0; 32]).unwrap();
}
