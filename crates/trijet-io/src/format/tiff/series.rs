//! The array that the pages of a file are: its shape, and the pages in their order.
//!
//! The shape is the shape that tifffile gives the first series of a file: from the description of
//! tifffile itself, of OME-XML, or of ImageJ, and otherwise from the pages alone.

use super::ome::{OmeError, first_image, is_ome, metres};
use super::page::PageForm;
use super::pages::{PageKind, Pages, cut, one_run};
use super::refused::refused;
use serde_json::Value;
use std::path::Path;
use trijet::Result;
use trijet::trace::count;

/// An array that consists of pages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Series {
    /// The shape of the array.
    pub(super) shape: Vec<u64>,
    /// The number of pages of the array.
    pub(super) pages: u64,
    /// The number of each page in the file, if they are in another order than in the file.
    pub(super) order: Option<Vec<u64>>,
    /// Whether only page 0 has a directory. The pixels of the other pages follow it.
    pub(super) is_one_run: bool,
    pub(super) left_out: Vec<String>,
    pub(super) ome_xml: Option<String>,
    pub(super) spacing: [Option<f64>; 3],
}

/// The array of a file with these pages.
pub(super) fn series_of(path: &Path, pages: &Pages) -> Result<Series> {
    let text = pages.description.as_deref().unwrap_or("");
    let mut series = if let Some(description) = Shaped::of(text) {
        description.series(path, pages)?
    } else if is_ome(text) {
        of_ome(path, pages, text)?
    } else if let Some(description) = ImageJ::of(text) {
        description.series(path, pages)?
    } else {
        of_pages(path, pages)?
    };
    if pages.has_levels {
        series.left_out.push("the smaller versions of the images (SubIFDs)".to_owned());
    }
    for (own, pixels) in series.spacing[1..].iter_mut().zip(pages.resolution) {
        *own = own.or_else(|| Some(pages.unit? / pixels?));
    }
    Ok(series)
}

/// All pages of the form of page 0, without smaller versions of other pages.
fn of_pages(path: &Path, pages: &Pages) -> Result<Series> {
    if let Some(other) = pages.kinds.iter().position(|kind| *kind == PageKind::Other) {
        return Err(PageForm::refuse_others(path, other as u64));
    }
    let alike = pages.kinds.iter().filter(|kind| **kind == PageKind::Alike).count() as u64;
    let mut series = Series { pages: alike, ..Series::default() };
    let (planes, directories) = (pages.form.planes, alike / pages.form.planes);
    series.shape.extend([directories, planes].into_iter().filter(|count| *count > 1));
    series.shape.extend(pages.form.shape());
    let reduced = pages.kinds.len() as u64 - alike;
    if reduced > 0 {
        series.left_out.push(format!("{} with smaller versions of others", count(reduced, "page")));
    }
    Ok(series)
}

/// The first `wanted` pages of the file, which must have the form of page 0.
fn first_pages(path: &Path, pages: &Pages, wanted: u64) -> Result<Series> {
    let found = pages.kinds.len() as u64;
    if wanted > found {
        let cause = format!(
            "the file is cut off or damaged: its description states {wanted} images, and it has \
             {}",
            count(found, "page")
        );
        return Err(cut(path, cause));
    }
    let wanted_kinds = &pages.kinds[..usize::try_from(wanted).unwrap_or(0)];
    if let Some(other) = wanted_kinds.iter().position(|kind| *kind != PageKind::Alike) {
        return Err(PageForm::refuse_others(path, other as u64));
    }
    let mut series = Series { pages: wanted, ..Series::default() };
    if found > wanted {
        let more = count(found - wanted, "page");
        series.left_out.push(format!("{more} after the first array"));
    }
    Ok(series)
}

/// The pages of an array whose description states `wanted` images. If the file has fewer pages, the
/// pixels of all images may follow the pixels of page 0, before the next directory.
fn stated_images(path: &Path, pages: &Pages, wanted: u64) -> Result<Series> {
    if wanted <= pages.kinds.len() as u64 {
        return first_pages(path, pages, wanted);
    }
    let data = one_run(pages, 1).and_then(|start| {
        let page = pages.form.row_bytes()?.checked_mul(pages.form.height)?;
        let end = start.checked_add(page.checked_mul(wanted)?)?;
        let limit = pages.second.filter(|second| *second > start).unwrap_or(pages.file_bytes);
        (end <= limit.min(pages.file_bytes)).then_some(())
    });
    match data {
        Some(()) => Ok(Series { pages: wanted, is_one_run: true, ..Series::default() }),
        None => first_pages(path, pages, wanted),
    }
}

fn product(axes: &[u64]) -> Option<u64> {
    axes.iter().try_fold(1_u64, |all, &axis| all.checked_mul(axis))
}

/// The description that tifffile writes by default: JSON with the shape of the array.
struct Shaped {
    shape: Vec<u64>,
    /// The distance between images in metres.
    spacing: Option<f64>,
}

impl Shaped {
    fn of(text: &str) -> Option<Self> {
        if let Some(axes) = text.strip_prefix("shape=(") {
            let axes = axes.trim_end().strip_suffix(')')?.split(',').map(str::trim);
            let axes = axes.filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok());
            return Some(Self { shape: axes.collect::<Option<_>>()?, spacing: None });
        }
        if !text.starts_with('{') {
            return None;
        }
        let json: Value = serde_json::from_str(text).ok()?;
        let axes = json.get("shape")?.as_array()?;
        let shape = axes.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let unit = json.get("unit").and_then(Value::as_str).and_then(metres);
        let spacing = json.get("spacing").and_then(Value::as_f64).zip(unit);
        let spacing =
            spacing.map(|(spacing, unit)| spacing * unit).filter(|spacing| *spacing > 0.0);
        Some(Self { shape, spacing })
    }

    fn series(self, path: &Path, pages: &Pages) -> Result<Series> {
        let page = pages.form.shape();
        let one = product(&page).unwrap_or(0);
        let all = product(&self.shape).unwrap_or(0);
        if one == 0 || all == 0 || !all.is_multiple_of(one) {
            let cause = format!(
                "the description states the shape {:?}, but the pages have the shape {page:?}",
                self.shape
            );
            return Err(cut(path, cause));
        }
        let series = stated_images(path, pages, all / one)?;
        Ok(Series { shape: self.shape, spacing: [self.spacing, None, None], ..series })
    }
}

/// The description that ImageJ writes: lines with a name and a value.
struct ImageJ<'a> {
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> ImageJ<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let lines: Vec<_> = lines.map(|(name, value)| (name.trim(), value.trim())).collect();
        let is_own = |(name, _): &(&str, &str)| matches!(*name, "ImageJ" | "SCIFIO");
        (text.starts_with("ImageJ=") || text.starts_with("SCIFIO="))
            .then_some(())
            .filter(|()| lines.iter().any(is_own))?;
        Some(Self { lines })
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.lines.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    fn series(&self, path: &Path, pages: &Pages) -> Result<Series> {
        let wrong = |name: &str, value: &str| {
            let cause = format!("the ImageJ description states {name}={value}");
            cut(path, cause)
        };
        let number = |name| match self.value(name) {
            None => Ok(1),
            Some(value) => match value.parse::<u64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(wrong(name, value)),
            },
        };
        let (frames, slices) = (number("frames")?, number("slices")?);
        let (mut channels, images) = (number("channels")?, number("images")?);
        let samples = pages.form.samples;
        // Some writers count the samples of a pixel as channels.
        if channels == samples && Some(images) == frames.checked_mul(slices) {
            channels = 1;
        }
        let axes = match self.value("order").unwrap_or("czt").to_lowercase().as_str() {
            "ctz" => [slices, frames, channels],
            "zct" => [frames, channels, slices],
            "ztc" => [channels, frames, slices],
            "tcz" => [slices, channels, frames],
            "tzc" => [channels, slices, frames],
            _ => [frames, slices, channels],
        };
        let stated = product(&axes).ok_or_else(|| wrong("frames", "a number that is too large"))?;
        let all = match (images, pages.kinds.len() as u64) {
            // A file of one page per image may not state their number.
            (1, found) if stated == 1 => found,
            (images, _) if images > stated => images,
            _ => stated,
        };
        if !all.is_multiple_of(stated) {
            return Err(wrong("images", &all.to_string()));
        }
        let series = stated_images(path, pages, all)?;
        let outer = [all / stated].into_iter().chain(axes).filter(|axis| *axis > 1);
        let shape = outer.chain(pages.form.shape()).collect();
        let unit = self.value("unit").and_then(metres);
        let along_z = self.value("spacing").and_then(|value| value.parse::<f64>().ok());
        let along_z = along_z.filter(|value| value.is_finite() && *value != 0.0).map(f64::abs);
        // The resolution has no unit in the file, because TIFF has only the inch and the
        // centimetre.
        let [along_y, along_x] = pages.resolution.map(|pixels| pixels.map(|pixels| 1.0 / pixels));
        let spacing = [along_z, along_y, along_x].map(|own| Some(own? * unit?));
        Ok(Series { shape, spacing, ..series })
    }
}

fn of_ome(path: &Path, pages: &Pages, text: &str) -> Result<Series> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let form = &pages.form;
    let unclear = |series: Series| {
        let mut series = series;
        series.left_out.push("the OME-XML, which does not describe the pages".to_owned());
        series
    };
    let image = match first_image(text, &name) {
        Ok(image) => image,
        Err(OmeError::Unclear) => return of_pages(path, pages).map(unclear),
        Err(OmeError::OtherFile(other)) => {
            let cause = format!(
                "is one of several files of an OME-TIFF set: its OME-XML names {}",
                crate::shown::shown(&other)
            );
            return Err(refused(path, cause));
        }
    };
    let page = (image.size('Y'), image.size('X'), image.samples);
    // The pages of OME-XML are directories.
    if page != (form.height, form.width, form.samples) || form.planes > 1 {
        return of_pages(path, pages).map(unclear);
    }
    let found = pages.kinds.len() as u64;
    let Some(order) = image.pages(found) else {
        let planes = image.planes().map_or("too many".to_owned(), |planes| planes.to_string());
        let cause = format!(
            "the file is cut off or damaged: its OME-XML states {planes} planes, and it has {}",
            count(found, "page")
        );
        return Err(cut(path, cause));
    };
    let is_in_order = order.iter().copied().eq(0..order.len() as u64);
    let kind_of = |page: &u64| usize::try_from(*page).ok().and_then(|page| pages.kinds.get(page));
    if let Some(other) = order.iter().find(|page| kind_of(page) != Some(&PageKind::Alike)) {
        return Err(PageForm::refuse_others(path, *other));
    }
    let mut series = Series { pages: order.len() as u64, ..Series::default() };
    let outer = image.axes.iter().map(|(_, size)| *size).take(3).filter(|size| *size > 1);
    series.shape = outer.chain(form.shape()).collect();
    series.spacing = image.spacing;
    if image.others > 0 {
        let images = count(image.others as u64, "image");
        series.left_out.push(format!("{images} of the OME-XML after the first one"));
    } else if found > series.pages {
        let more = count(found - series.pages, "page");
        series.left_out.push(format!("{more} that the OME-XML does not name"));
    }
    // In another order, the text would not describe an output.
    if is_in_order && image.others == 0 {
        series.ome_xml = Some(text.to_owned());
    } else if !is_in_order {
        let numbers = pages.numbers_among_alike();
        let number =
            |page: &u64| usize::try_from(*page).ok().and_then(|at| numbers.get(at).copied());
        series.order = Some(order.iter().filter_map(number).collect());
    }
    Ok(series)
}
