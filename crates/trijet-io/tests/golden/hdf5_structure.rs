//! HDF5 files whose structure is unusual: links, large groups, and parts without an array of NumPy.

use super::{assert_equals, golden, whole};
use std::fs;
use trijet::{Dtype, ErrorKind};
use trijet_io::Input;

#[track_caller]
fn open(path: &str) -> Input {
    Input::open(&golden("hdf5", path), None).unwrap()
}

#[track_caller]
fn refused(path: &str, words: &[&str]) {
    let error = Input::open(&golden("hdf5", path), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` has no `{word}`");
    }
}

#[test]
fn soft_links_are_followed_from_their_group_or_the_root() {
    for name in ["links-old", "links-new"] {
        for path in [
            "a/b/data",
            "relative",
            "a/sibling",
            "a/b/absolute",
            "group/data",
            "twice",
            "once",
            "self/self/a/b/data",
            "chain2",
            "/chain17",
        ] {
            assert_equals(&open(&format!("{name}.h5::{path}")), "hdf5", name);
        }
    }
}

#[test]
fn soft_links_to_nothing_or_in_circles_are_refused() {
    for name in ["links-old", "links-new"] {
        let names = "the data sets are /a/b/data";
        for (path, cause) in [
            ("nowhere", "there is no none"),
            ("through", "there is no x"),
            ("circle", "soft links lead to each other"),
            ("left", "soft links lead to each other"),
            // The library also follows 16 links.
            ("chain0", "more than 16 soft links"),
        ] {
            let start = format!("/{path} cannot be opened");
            refused(&format!("{name}.h5::{path}"), &[&start, cause, names]);
        }
        refused(&format!("{name}.h5::group"), &["/group is a group", names]);
    }
}

#[test]
fn a_link_to_another_file_is_refused() {
    for name in ["away_old", "away_new"] {
        let words = ["/away cannot be opened", "/data in the file other.h5", "h5py.File("];
        refused(&format!("{name}.h5::away"), &words);
        refused(&format!("{name}.h5::away/deeper"), &words[1..]);
        assert_eq!(open(&format!("{name}.h5::a/b/data")).array().shape(), [2, 3, 4]);
    }
}

#[test]
fn a_file_with_only_external_links_is_refused_by_their_file() {
    let words = ["no data set", "/entry/data is a link to /data in the file other.h5"];
    refused("only_away.h5", &words);
}

/// Once, another data set was opened without a word: the only one that could be read.
#[test]
fn the_only_readable_data_set_is_no_default_beside_others() {
    for name in ["away_old", "away_new"] {
        let words = ["has /a/b/data, but /away is a link to /data in the file other.h5", "::/a/b"];
        refused(&format!("{name}.h5"), &words);
    }
    let deep = vec!["a"; 17].join("/");
    refused("deep_groups.h5", &[&format!("/{deep}, which cannot be read (below 16 other groups)")]);
    assert_eq!(open(&format!("deep_groups.h5::{deep}/stack")).array().shape(), [2, 3, 4]);
}

/// Once, the search followed, and found the only stack of the file.
#[test]
fn a_default_of_nexus_that_cannot_be_read_is_refused() {
    let by = "/entry/data/data (by the attribute signal of /entry/data) ";
    let (unopened, group) = (format!("{by}cannot be opened"), format!("{by}is a group"));
    for (name, words) in [
        ("away", &[&*unopened, "/data in the file raw.h5", "['entry/data/data']"][..]),
        ("entry_away", &["/entry (by the attribute default of /) cannot be opened"]),
        ("missing", &[&unopened, "there is no data", "/flats/flat"]),
        ("group", &[&group, "/flats/flat"]),
    ] {
        refused(&format!("nexus_{name}.h5"), words);
        assert_eq!(open(&format!("nexus_{name}.h5::flats/flat")).array().shape(), [2, 3, 4]);
    }
    // Only a text is a name, and a group is not its own default.
    assert_eq!(open("nexus_number.h5").array().shape(), [2, 3, 4]);
}

#[test]
fn a_default_of_nexus_that_is_damaged_is_no_other_data_set() {
    let good = fs::read(golden("hdf5", "nexus.h5")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    let headers: Vec<usize> =
        (0..good.len() - 4).filter(|at| &good[*at..at + 4] == b"OHDR").collect();
    for at in headers {
        let mut bytes = good.clone();
        // The version of the header.
        bytes[at + 4] = 9;
        fs::write(&bad, bytes).unwrap();
        if let Ok(input) = Input::open(&bad, None) {
            assert_equals(&input, "hdf5", "nexus");
        }
        fs::remove_file(&bad).unwrap();
    }
}

#[test]
fn descriptions_in_a_heap_of_the_file_are_refused() {
    // The first description stays with its data set.
    assert_eq!(open("shared_messages.h5::data").array().dtype(), Dtype::U16);
    refused("shared_messages.h5::more", &["H5Pset_shared_mesg_index"]);
    refused("shared_messages.h5", &["cannot be read", "H5Pset_shared_mesg_index"]);
}

#[test]
fn every_link_of_a_large_group_is_found() {
    for name in ["links-dense", "links-ordered"] {
        for path in ["many/stack", "many/soft", "many/a link to the group itself, number 77/stack"]
        {
            assert_equals(&open(&format!("{name}.h5::{path}")), "hdf5", name);
        }
    }
}

#[test]
fn attributes_in_a_heap_are_read() {
    let input = open("attributes-dense.h5");
    let mut found = input.annotations().attributes.clone();
    for number in 0..12 {
        assert_eq!(found.remove(&format!("number{number}")), Some(number.into()));
    }
    let large = found.remove("large").unwrap();
    assert_eq!(large, serde_json::Value::from_iter((0..600).map(f64::from)));
    let expected = serde_json::json!({
        "yes": 1, "half": -1.5, "words": ["a", "", "ccc"], "table": [1, 2, 3, 4],
    });
    assert_eq!(serde_json::Value::from(found), expected);
}

/// Once, an index with damage had no attributes at all.
#[test]
fn the_attributes_before_damage_are_read() {
    let good = fs::read(golden("hdf5", "attributes-levels.h5")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let read = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let path = folder.path().join("a.h5");
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).unwrap();
        Input::open(&path, None).unwrap().annotations().attributes.len()
    };
    assert_eq!(read(&|_| {}), 60);
    let leaves: Vec<usize> =
        (0..good.len() - 4).filter(|at| good[*at..].starts_with(b"BTLF")).collect();
    assert!(leaves.len() > 1);
    let found: usize = leaves.iter().map(|leaf| read(&|bytes| bytes[*leaf] = 0)).sum();
    assert!(found > 0, "{found}");
}

#[test]
fn attributes_of_a_committed_type_are_read() {
    assert_eq!(open("committed.h5").annotations().attributes["own"], 7);
}

#[test]
fn a_page_of_an_extensible_array_that_was_not_written_has_no_chunks() {
    let bytes = whole(&open("extensible_pages.h5"));
    let first = 4 + 16 * ((1 << 13) - 1);
    let set: Vec<(usize, u8)> =
        bytes.iter().copied().enumerate().filter(|(_, value)| *value != 0).collect();
    assert_eq!(set, [(3, 5), (first + 2048 + 1500, 6)]);
}

#[test]
fn bfloat16_has_its_bits() {
    let input = open("bfloat16.h5");
    assert_eq!((input.array().dtype(), input.array().shape()), (Dtype::BF16, &[2, 3][..]));
    let expected: Vec<u8> = (0x3f80_u16..0x3f86).flat_map(u16::to_le_bytes).collect();
    assert_eq!(whole(&input), expected);
}

/// HDF5 1.4 had only the older of the two messages of a fill value.
#[test]
fn the_older_message_of_a_fill_value_is_read() {
    let mut bytes = fs::read(golden("hdf5", "fill-old-header.h5")).unwrap();
    // The type and the size of the newer message, which becomes a gap.
    let at = bytes.windows(4).position(|part| part == [5, 0, 16, 0]).unwrap();
    bytes[at] = 0;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("older.h5");
    fs::write(&path, bytes).unwrap();
    assert_equals(&Input::open(&path, None).unwrap(), "hdf5", "fill-old-header");
}

/// Programs put a text before a file, and its addresses stay as they are.
#[test]
fn a_file_after_other_bytes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["gzip", "gzip-shuffle", "userblock-chunked", "index-implicit"] {
        let own = fs::read(golden("hdf5", &format!("{name}.h5"))).unwrap();
        // The start of a file is at a power of two.
        for before in [512, 4096] {
            let skipped = if name.starts_with("userblock") { 512 } else { 0 };
            let path = folder.path().join("after.h5");
            fs::write(&path, [vec![b'#'; before], own[skipped..].to_vec()].concat()).unwrap();
            assert_equals(&Input::open(&path, None).unwrap(), "hdf5", name);
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Once, each link of such a group had its own copy of the name.
#[test]
fn a_name_that_many_links_share_is_not_copied_without_a_limit() {
    let mut bytes = fs::read(golden("hdf5", "old-tree-levels.h5")).unwrap();
    let (count, name_bytes) = (60_000_usize, 4 << 20);
    // A node of many symbols, whose names are the one in a large heap.
    let node = bytes.len();
    bytes.extend(b"SNOD\x01\0");
    bytes.extend(u16::try_from(count).unwrap().to_le_bytes());
    let entry = [&8_u64.to_le_bytes()[..], &96_u64.to_le_bytes(), &[0; 24]].concat();
    bytes.extend(entry.repeat(count));
    let text = bytes.len();
    bytes.resize(text + 8 + name_bytes, b'x');
    bytes.push(0);
    let mut set = |at: usize, number: usize| {
        bytes[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    };
    // The segment of the heap of the root group, and the child of its tree.
    let good = fs::read(golden("hdf5", "old-tree-levels.h5")).unwrap();
    let place = |name: &[u8]| good.windows(4).position(|part| part == name).unwrap();
    set(place(b"HEAP") + 8, 9 + name_bytes);
    set(place(b"HEAP") + 24, text);
    set(place(b"TREE") + 32, node);
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    fs::write(&bad, bytes).unwrap();
    let error = Input::open(&bad, None).unwrap_err();
    assert!(error.to_string().contains("the same bytes again and again"), "{error}");
}

/// The writer may have lost the places of chunks, which would be read as chunks without elements.
#[test]
fn a_file_that_was_not_closed_is_refused() {
    for name in ["open_write", "open_swmr"] {
        let error = Input::open(&golden("hdf5", &format!("{name}.h5::data")), None).unwrap_err();
        refused(&format!("{name}.h5"), &["is open for writing", "h5clear -s"]);
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    }
}

/// A heap of texts aligns its parts to eight bytes, also where lengths are shorter.
#[test]
fn texts_of_any_length_are_read_in_files_with_short_lengths() {
    for name in ["text-8-2", "text-8-4"] {
        let words = serde_json::json!(["counts", "of", "photons per second"]);
        let input = open(&format!("{name}.h5::data"));
        assert_eq!(input.annotations().attributes.get("words"), Some(&words), "{name}");
        assert_equals(&open(&format!("{name}.h5")), "hdf5", name);
    }
}
