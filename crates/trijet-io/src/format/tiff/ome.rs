//! The OME-XML text of an OME-TIFF file: the shape of the array, and the page of each plane.

use roxmltree::{Document, Node};
use std::collections::HashMap;

/// Maximum number of elements and texts of an OME-XML text. A file of a million planes has about
/// five for each plane.
const NODES_MAX: u32 = 8 << 20;

/// The first image of an OME-XML text.
#[derive(Debug, PartialEq)]
pub(super) struct OmeImage {
    /// The axes and their lengths, slowest first, without the samples of a pixel.
    pub(super) axes: Vec<(char, u64)>,
    /// The element type, as OME names it.
    pub(super) kind: String,
    /// Samples of a pixel that the channels contain.
    pub(super) samples: u64,
    pub(super) tiff_data: Vec<TiffData>,
    /// The number of further images.
    pub(super) others: usize,
    /// The distance between pixels along z, y and x in metres.
    pub(super) spacing: [Option<f64>; 3],
}

/// Planes that follow one another both in the array and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TiffData {
    /// The index of the first plane.
    pub(super) plane: u64,
    /// The index of the first page.
    pub(super) page: u64,
    /// The number of planes. `None` for all pages of the file.
    pub(super) count: Option<u64>,
}

/// The reason why an OME-XML text does not describe the pages of its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OmeError {
    /// The text cannot be understood.
    Unclear,
    /// Pixels, or the whole description, are in another file.
    OtherFile(String),
}

/// Whether a description is an OME-XML text.
pub(super) fn is_ome(description: &str) -> bool {
    description.trim_end().ends_with("OME>")
}

/// Reads the first image of an OME-XML text of the file with this name.
pub(super) fn first_image(xml: &str, file_name: &str) -> Result<OmeImage, OmeError> {
    let options = roxmltree::ParsingOptions { nodes_limit: NODES_MAX, ..Default::default() };
    let document = Document::parse_with_options(xml, options).map_err(|_| OmeError::Unclear)?;
    let root = document.root_element();
    let children = |name| root.children().filter(move |node: &Node<'_, '_>| is(node, name));
    if let Some(other) = children("BinaryOnly").next() {
        let name = other.attribute("MetadataFile").unwrap_or("another file");
        return Err(OmeError::OtherFile(name.to_owned()));
    }
    let first = children("Image").next().ok_or(OmeError::Unclear)?;
    let pixels = first.children().find(|node| is(node, "Pixels")).ok_or(OmeError::Unclear)?;
    let channel = pixels.children().find(|node| is(node, "Channel"));
    let samples = channel.and_then(|node| number(&node, "SamplesPerPixel")).unwrap_or(1).max(1);
    let axes = axes_of(&pixels, samples).ok_or(OmeError::Unclear)?;
    let own = Own { root_uuid: root.attribute("UUID"), file_name };
    let mut uuid = own.root_uuid.map(str::to_owned);
    let mut tiff_data = Vec::new();
    for data in pixels.children().filter(|node| is(node, "TiffData")) {
        own.check(&data, &mut uuid)?;
        tiff_data.push(planes_of(&data, &axes).ok_or(OmeError::Unclear)?);
    }
    let spacing = ["Z", "Y", "X"].map(|axis| physical_size(&pixels, axis));
    Ok(OmeImage {
        axes,
        kind: pixels.attribute("Type").unwrap_or("").to_owned(),
        samples,
        tiff_data,
        others: children("Image").count().saturating_sub(1),
        spacing,
    })
}

/// The file whose OME-XML text is read.
struct Own<'a> {
    root_uuid: Option<&'a str>,
    file_name: &'a str,
}

impl Own<'_> {
    /// Checks that the planes of `data` are in this file. `uuid` is the identifier of this file, if
    /// it is known.
    fn check(&self, data: &Node<'_, '_>, uuid: &mut Option<String>) -> Result<(), OmeError> {
        let Some(node) = data.children().find(|node| is(node, "UUID")) else { return Ok(()) };
        let text = node.text().map(str::trim);
        let name = node.attribute("FileName").unwrap_or("");
        if text.is_some() && text == uuid.as_deref() {
            return Ok(());
        }
        if self.root_uuid.is_none() && uuid.is_none() && name.eq_ignore_ascii_case(self.file_name) {
            *uuid = text.map(str::to_owned);
            return Ok(());
        }
        Err(OmeError::OtherFile(name.to_owned()))
    }
}

fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

fn number(node: &Node<'_, '_>, name: &str) -> Option<u64> {
    node.attribute(name)?.trim().parse().ok()
}

/// The axes of `Pixels`, slowest first. `None` if an attribute is missing or wrong.
fn axes_of(pixels: &Node<'_, '_>, samples: u64) -> Option<Vec<(char, u64)>> {
    let order = pixels.attribute("DimensionOrder")?;
    let mut sorted: Vec<char> = order.chars().collect();
    sorted.sort_unstable();
    if sorted != ['C', 'T', 'X', 'Y', 'Z'] || !order.starts_with("XY") {
        return None;
    }
    order
        .chars()
        .rev()
        .map(|axis| {
            let size = number(pixels, &format!("Size{axis}"))?;
            let size = if axis == 'C' { size / samples } else { size };
            (size > 0).then_some((axis, size))
        })
        .collect()
}

fn planes_of(data: &Node<'_, '_>, axes: &[(char, u64)]) -> Option<TiffData> {
    let mut plane: u64 = 0;
    for (axis, size) in &axes[..axes.len() - 2] {
        let at = number(data, &format!("First{axis}")).unwrap_or(0);
        if at >= *size {
            return None;
        }
        plane = plane.checked_mul(*size)?.checked_add(at)?;
    }
    let page = number(data, "IFD");
    let stated = number(data, "PlaneCount").or_else(|| number(data, "NumPlanes"));
    let count = stated.or(page.map(|_| 1)).filter(|count| *count > 0);
    Some(TiffData { plane, page: page.unwrap_or(0), count })
}

fn physical_size(pixels: &Node<'_, '_>, axis: &str) -> Option<f64> {
    let size: f64 = pixels.attribute(&*format!("PhysicalSize{axis}"))?.trim().parse().ok()?;
    let unit = pixels.attribute(&*format!("PhysicalSize{axis}Unit")).unwrap_or("µm");
    let metres = size * metres(unit)?;
    (metres.is_finite() && metres > 0.0).then_some(metres)
}

/// The length of a unit in metres. `None` for an unknown unit.
pub(super) fn metres(unit: &str) -> Option<f64> {
    Some(match unit.trim() {
        "pm" => 1e-12,
        "Å" | "angstrom" => 1e-10,
        "nm" | "nanometer" => 1e-9,
        "µm" | "\u{3bc}m" | "um" | "micron" | "microns" | "micrometer" | "\\u00B5m" => 1e-6,
        "mm" | "millimeter" => 1e-3,
        "cm" | "centimeter" => 1e-2,
        "m" | "meter" => 1.0,
        "inch" | "in" => 0.0254,
        _ => return None,
    })
}

impl OmeImage {
    /// The number of planes. `None` if the number overflows.
    pub(super) fn planes(&self) -> Option<u64> {
        let axes = &self.axes[..self.axes.len() - 2];
        axes.iter().try_fold(1_u64, |all, (_, size)| all.checked_mul(*size))
    }

    /// The length of an axis.
    pub(super) fn size(&self, axis: char) -> u64 {
        self.axes.iter().find(|(own, _)| *own == axis).map_or(1, |(_, size)| *size)
    }

    /// The page of each plane. `pages` is the number of pages of the file. `None` if a plane has
    /// no page.
    pub(super) fn pages(&self, pages: u64) -> Option<Vec<u64>> {
        let planes = self.planes().filter(|planes| *planes <= pages)?;
        let mut found: HashMap<u64, u64> = HashMap::new();
        let all = [TiffData { plane: 0, page: 0, count: None }];
        let tiff_data = if self.tiff_data.is_empty() { &all[..] } else { &self.tiff_data };
        let mut work = 0_u64;
        for TiffData { plane, page, count } in tiff_data {
            let count = count.unwrap_or(pages).min(pages.saturating_sub(*page));
            let count = count.min(planes.saturating_sub(*plane));
            // Each plane is named once, or a few times by mistake.
            work += count;
            if work > 16 * pages + 16 {
                return None;
            }
            found.extend((0..count).map(|n| (plane + n, page + n)));
        }
        (0..planes).map(|plane| found.get(&plane).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(attributes: &str, inside: &str) -> Result<OmeImage, OmeError> {
        let xml = format!(
            "<?xml version=\"1.0\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" \
             UUID=\"urn:uuid:1\"><Image><Pixels DimensionOrder=\"XYZCT\" {attributes}>{inside}\
             </Pixels></Image><Image/></OME>"
        );
        assert!(is_ome(&xml));
        first_image(&xml, "a.ome.tif")
    }

    const SIZES: &str =
        "SizeX=\"5\" SizeY=\"4\" SizeZ=\"3\" SizeC=\"2\" SizeT=\"1\" Type=\"uint16\"";

    #[test]
    fn planes_are_found_in_the_order_of_their_axes() {
        let planes = "<TiffData IFD=\"0\" FirstC=\"1\"/><TiffData IFD=\"1\" PlaneCount=\"2\" FirstC=\"1\" FirstZ=\"1\"/>\
                      <TiffData IFD=\"3\" PlaneCount=\"3\"/>";
        let image = image(SIZES, planes).unwrap();
        assert_eq!(image.axes, [('T', 1), ('C', 2), ('Z', 3), ('Y', 4), ('X', 5)]);
        assert_eq!(image.pages(6).unwrap(), [3, 4, 5, 0, 1, 2]);
        assert_eq!(image.pages(5), None);
        assert_eq!(image.others, 1);
    }

    #[test]
    fn a_text_without_places_takes_the_pages_in_order() {
        for planes in ["", "<TiffData/>"] {
            assert_eq!(image(SIZES, planes).unwrap().pages(7).unwrap(), [0, 1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn planes_of_another_file_are_named() {
        let planes = "<TiffData><UUID FileName=\"b.ome.tif\">urn:uuid:2</UUID></TiffData>";
        assert_eq!(image(SIZES, planes), Err(OmeError::OtherFile("b.ome.tif".to_owned())));
        let own = "<TiffData><UUID FileName=\"x.tif\">urn:uuid:1</UUID></TiffData>";
        assert!(image(SIZES, own).is_ok());
    }

    #[test]
    fn sizes_that_no_file_has_take_no_memory() {
        let sizes = SIZES.replace("SizeT=\"1\"", "SizeT=\"18446744073709551615\"");
        assert_eq!(image(&sizes, "").unwrap().pages(6), None);
        let huge = "<TiffData IFD=\"18446744073709551615\" PlaneCount=\"18446744073709551615\"/>";
        assert_eq!(image(SIZES, huge).unwrap().pages(6), None);
        assert_eq!(image(&SIZES.replace('5', "0"), ""), Err(OmeError::Unclear));
    }

    #[test]
    fn a_physical_size_has_its_unit() {
        let sizes =
            format!("{SIZES} PhysicalSizeX=\"0.5\" PhysicalSizeZ=\"2\" PhysicalSizeZUnit=\"nm\"");
        let spacing = image(&sizes, "").unwrap().spacing;
        assert_eq!(spacing, [Some(2.0 * 1e-9), None, Some(0.5 * 1e-6)]);
    }
}
