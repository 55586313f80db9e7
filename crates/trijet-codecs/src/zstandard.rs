//! Frames of Zstandard, by the C library or by ruzstd.

use crate::bytes::Bytes;
use crate::error::{Cause, too_long};

#[cfg(feature = "zstd-c")]
pub(crate) use c::Zstandard;
#[cfg(not(feature = "zstd-c"))]
pub(crate) use pure::Zstandard;

const MAGIC: usize = 0xFD2F_B528;

/// The first bytes of frames that have no data, with any value of the lowest four bits.
const SKIPPED: usize = 0x184D_2A50;

/// The header of a frame.
#[cfg_attr(
    all(feature = "zstd-c", not(test)),
    expect(dead_code, reason = "the C library reads the header itself")
)]
struct FrameHeader {
    /// The bytes of the header, with the magic number.
    length: usize,
    /// The position of the byte with the size of the window, if the frame has one.
    window: Option<usize>,
    /// The bytes of the decoded data, if the frame states them.
    content: Option<u64>,
}

impl FrameHeader {
    /// Reads the header of the first frame. Returns the bytes of a frame without data as an error.
    fn read(input: &[u8]) -> Result<Result<Self, usize>, Cause> {
        let early = |_| Cause::from("the frame ends early");
        let mut bytes = Bytes(input);
        let magic = bytes.u32_le().map_err(early)?;
        if magic & !15 == SKIPPED {
            let skipped = bytes.u32_le().map_err(early)?;
            bytes.take(skipped).map_err(early)?;
            return Ok(Err(input.len() - bytes.0.len()));
        }
        if magic != MAGIC {
            return Err("no frame begins here".into());
        }
        let &[descriptor] = bytes.take(1).map_err(early)? else { unreachable!("one byte") };
        let is_single = descriptor & 0x20 != 0;
        let window = (!is_single).then_some(5);
        let content_bytes = match descriptor >> 6 {
            0 => usize::from(is_single),
            power => 1 << power,
        };
        let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
        bytes.take(usize::from(!is_single) + dictionary_bytes).map_err(early)?;
        let mut number = [0; 8];
        number[..content_bytes].copy_from_slice(bytes.take(content_bytes).map_err(early)?);
        let offset = if content_bytes == 2 { 256 } else { 0 };
        let content =
            (content_bytes > 0).then(|| u64::from_le_bytes(number).saturating_add(offset));
        Ok(Ok(Self { length: input.len() - bytes.0.len(), window, content }))
    }

    /// Refuses a frame that states more bytes than have room.
    fn check(&self, room: usize, most: usize) -> Result<(), Cause> {
        let is_too_long = self.content.is_some_and(|content| content > room as u64);
        if is_too_long { Err(too_long(most)) } else { Ok(()) }
    }
}

#[cfg(any(test, not(feature = "zstd-c")))]
mod pure {
    use super::FrameHeader;
    use crate::error::{Cause, too_long};
    use ruzstd::decoding::errors::FrameDecoderError;
    use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
    use std::fmt;
    use std::io::Read;

    /// The longest header of a frame.
    const HEADER_BYTES_MAX: usize = 18;

    /// The smallest window of a frame.
    const WINDOW_MIN: usize = 1024;

    /// Decoded bytes of a frame that are copied at once.
    const COPIED: usize = 1 << 17;

    /// A decoder that is used again for the next block.
    #[derive(Default)]
    pub(crate) struct Zstandard(Option<Box<FrameDecoder>>);

    impl fmt::Debug for Zstandard {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Zstandard").finish_non_exhaustive()
        }
    }

    impl Zstandard {
        pub(crate) fn decode(
            &mut self,
            mut input: &[u8],
            output: &mut [u8],
        ) -> Result<usize, Cause> {
            let decoder = self.0.get_or_insert_with(|| Box::new(FrameDecoder::new()));
            let mut written = 0;
            while !input.is_empty() {
                let header = match FrameHeader::read(input)? {
                    Ok(header) => header,
                    Err(skipped) => {
                        input = &input[skipped..];
                        continue;
                    }
                };
                let target = &mut output[written..];
                header.check(target.len(), written + target.len())?;
                let (head, mut body) = input.split_at(header.length);
                let head = with_window(head, header.window, target.len());
                decoder.set_max_window_size(u64::MAX);
                decoder.reset(&head[..header.length]).map_err(damaged)?;
                let room = target.len();
                written += frame(decoder, &mut body, target)
                    .map_err(|error| error.map_or_else(|| too_long(written + room), damaged))?;
                input = body;
            }
            Ok(written)
        }

        /// Zstandard is only written by the C library.
        #[cfg(not(feature = "zstd-c"))]
        pub(crate) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Cause> {
            Err("encoding needs the feature `zstd-c` of trijet-codecs".into())
        }
    }

    /// The header of a frame with a window that is no larger than the room for the data. The
    /// decoder reserves memory for the window, and no copy reaches back further than the data.
    fn with_window(head: &[u8], window: Option<usize>, room: usize) -> [u8; HEADER_BYTES_MAX] {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[..head.len()].copy_from_slice(head);
        if let Some(at) = window {
            let bits = usize::BITS - (room.max(WINDOW_MIN) - 1).leading_zeros();
            // The upper five bits are a power of two above 1024; the lower bits would be eighths.
            let most = u8::try_from((bits - WINDOW_MIN.trailing_zeros()) << 3).unwrap_or(u8::MAX);
            bytes[at] = bytes[at].min(most);
        }
        bytes
    }

    /// Decodes the blocks of a frame after its header. Returns no error when the room is too small.
    fn frame(
        decoder: &mut FrameDecoder,
        body: &mut &[u8],
        target: &mut [u8],
    ) -> Result<usize, Option<FrameDecoderError>> {
        let mut written = 0;
        loop {
            let strategy = BlockDecodingStrategy::UptoBytes(COPIED);
            decoder.decode_blocks(&mut *body, strategy).map_err(Some)?;
            let read = decoder
                .read(&mut target[written..])
                .map_err(|error| Some(FrameDecoderError::FailedToDrainDecodebuffer(error)))?;
            written += read;
            if decoder.can_collect() > 0 {
                return Err(None);
            }
            if decoder.is_finished() {
                break;
            }
        }
        let stated = decoder.get_checksum_from_data();
        if stated.is_some() && stated != decoder.get_calculated_checksum() {
            return Err(Some(FrameDecoderError::NotYetInitialized));
        }
        Ok(written)
    }

    fn damaged(error: FrameDecoderError) -> Cause {
        match error {
            FrameDecoderError::NotYetInitialized => "the checksum differs from the data".into(),
            FrameDecoderError::FailedToReadBlockHeader(_)
            | FrameDecoderError::FailedToReadChecksum(_) => "the frame ends early".into(),
            other => format!("the frame is damaged: {other}").into(),
        }
    }
}

#[cfg(feature = "zstd-c")]
mod c {
    use super::FrameHeader;
    use crate::error::{Cause, too_long};
    use std::fmt;
    use zstd::bulk::{Compressor, Decompressor};

    /// A decoder and an encoder that are used again for the next block.
    #[derive(Default)]
    pub(crate) struct Zstandard {
        decoder: Option<Decompressor<'static>>,
        encoder: Option<Compressor<'static>>,
    }

    impl fmt::Debug for Zstandard {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Zstandard").finish_non_exhaustive()
        }
    }

    impl Zstandard {
        pub(crate) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
            if let [_, ..] = input
                && let Ok(header) = FrameHeader::read(input)?
            {
                header.check(output.len(), output.len())?;
            }
            let most = output.len();
            let decoder = self.decoder.get_or_insert_default();
            decoder.decompress_to_buffer(input, output).map_err(|error| {
                match error.to_string().as_str() {
                    "Destination buffer is too small" => too_long(most),
                    "Src size is incorrect" => "a frame ends early, or bytes follow it".into(),
                    other => format!("the frame is damaged: {other}").into(),
                }
            })
        }

        /// Appends one frame to `output`.
        pub(crate) fn encode(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), Cause> {
            let encoder = self.encoder.get_or_insert_default();
            let frame = encoder.compress(input).map_err(|error| Cause::from(error.to_string()))?;
            output.extend_from_slice(&frame);
            Ok(())
        }
    }
}

#[cfg(all(test, feature = "zstd-c"))]
mod tests {
    use super::{c, pure};
    use zstd::zstd_safe::{CCtx, CParameter};

    /// A frame of these elements.
    fn frame(elements: &[u8], parameters: &[CParameter]) -> Vec<u8> {
        let mut context = CCtx::create();
        for parameter in parameters {
            context.set_parameter(*parameter).expect("a parameter of the library");
        }
        let mut frame = Vec::with_capacity(elements.len() + 1000);
        context.compress2(&mut frame, elements).expect("room for the frame");
        frame
    }

    #[test]
    fn both_decoders_read_the_same_frames() {
        let (mut c, mut pure) = (c::Zstandard::default(), pure::Zstandard::default());
        for length in [0, 1, 255, 256, 1023, 1025, 70_000, 131_072, 131_073, 400_000] {
            let elements: Vec<u8> =
                (0..length).map(|n: u32| (n.wrapping_mul(n) / 977).to_le_bytes()[0]).collect();
            for level in [1, 3, 19] {
                for [size, checksum] in [[true, true], [false, true], [false, false]] {
                    let parameters = [
                        CParameter::CompressionLevel(level),
                        CParameter::ContentSizeFlag(size),
                        CParameter::ChecksumFlag(checksum),
                    ];
                    let stored = frame(&elements, &parameters);
                    for end in [stored.len(), stored.len() - 1, stored.len() / 2, 7] {
                        let stored = &stored[..end.min(stored.len())];
                        for room in [elements.len(), elements.len() + 9, elements.len() / 2] {
                            let (mut one, mut other) = (vec![0; room], vec![0; room]);
                            let written = c.decode(stored, &mut one);
                            assert_eq!(written.clone().ok(), pure.decode(stored, &mut other).ok());
                            if let Ok(written) = written {
                                assert_eq!(one[..written], other[..written]);
                            }
                        }
                    }
                }
            }
        }
    }
}
