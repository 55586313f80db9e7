//! A folder of TIFF files with one page each: a stack in the natural order of the file names.

use super::folder_files::FolderFiles;
use super::page::PageForm;
use super::pages::{PagesFile, read_all};
use super::read::{annotations_of, array_of};
use super::refused::refused;
use super::series::series_of;
use super::table::{PageFiles, PageTable};
use crate::annotations::Annotations;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::format::contract::Opened;
use crate::format::folder::is_tiff;
use crate::format::images::{LeftOut, sort};
use crate::item::Item;
use crate::shown::shown;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use trijet::Result;

/// The facts about the first file of a folder.
#[derive(Debug, Clone)]
struct First {
    form: PageForm,
    order: ByteOrder,
    annotations: Annotations,
    left_out: Vec<String>,
}

/// Opens the folder at `path`, and reads the directory of every file.
pub(super) fn open(folder: &Path) -> Result<Opened> {
    let mut left_out = LeftOut::default();
    let names = names_of(folder, &mut left_out);
    let names = names.map_err(|error| file_error::io("open", folder, error))?;
    let (mut items, mut places) = (Vec::new(), Vec::new());
    let mut first: Option<First> = None;
    for name in &names {
        let path = folder.join(name);
        let PagesFile { metadata, pages, .. } = read_all(&path)?;
        let mut series = series_of(&path, &pages)?;
        if series.pages != 1 || pages.kinds.len() != 1 {
            let cause =
                "has more than one page; only a folder of files with one page each is a stack";
            return Err(refused(&path, cause));
        }
        items.push(Item::new(name.clone(), &metadata));
        places.extend(pages.places);
        let (form, order) = (pages.form, pages.order);
        let annotations = annotations_of(&mut series, &form);
        let own = First { form, order, annotations, left_out: series.left_out };
        let first = &*first.get_or_insert_with(|| own.clone());
        if own.form != first.form || own.order != first.order {
            return Err(refuse_other(&path, &first.form, &names[0]));
        }
    }
    let Some(First { form, order, mut annotations, left_out: further }) = first else {
        return Err(file_error::refused("open", folder, "the folder has no .tif file"));
    };
    // The OME-XML of one file describes that file only.
    annotations.ome_xml = None;
    let mut shape = vec![names.len() as u64];
    shape.extend(form.shape());
    let array = array_of(folder, &form, shape)?;
    let files = FolderFiles::new(folder, items.clone());
    let table = PageTable::new(PageFiles::Folder(files), &form, places, None);
    let reader = table.reader(folder, &form, order, &array)?;
    let mut left_out = left_out.words(&names);
    left_out.extend(further);
    let (granule, whole_rows, reader) = (1, reader.rows_of_blocks(), Box::new(reader));
    Ok(Opened { array, granule, whole_rows, items, left_out, annotations, reader })
}

/// The error for a file whose page is unlike the first one.
fn refuse_other(path: &Path, form: &PageForm, first: &OsString) -> trijet::Error {
    let shape = form.shape();
    let first = shown(first);
    let cause = format!(
        "is not like {first} with {} x {} pixels: all images must have one size, type, compression \
         and byte order",
        shape[0], shape[1]
    );
    file_error::refused("open", path, cause)
}

/// The names of the images in their natural order. A file whose name starts with a dot is skipped.
fn names_of(folder: &Path, left_out: &mut LeftOut) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if is_tiff(Path::new(&name)) {
            names.push(name);
        } else {
            left_out.see_file(name);
        }
    }
    sort(&mut names);
    Ok(names)
}
