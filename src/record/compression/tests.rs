//! Every codec there and back, beside what Java and other writers make; and bounds for what claims to be small.

use proptest::prelude::*;

use super::*;

const TEXT: &[u8] = b"012345678901234567890123456789abc";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn read(codec: Codec, input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    decompress(codec, &Bytes::copy_from_slice(input), 8 << 20).map(|output| output.to_vec())
}

fn is_corrupt(codec: Codec, input: &[u8]) {
    assert!(matches!(read(codec, input), Err(CompressionError::Corrupt { .. })), "{codec} {input:x?}");
}

fn compressed(codec: Codec, input: &[u8]) -> Vec<u8> {
    let mut output = b"before".to_vec();
    compress(codec, codec.default_level(), input, &mut output);
    output.split_off(6)
}

/// Bytes that do not compress.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        })
        .collect()
}

#[test]
fn every_codec_round_trips_around_its_block_size() {
    for codec in Codec::ALL {
        for size in [0, 1, 100, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000] {
            for input in [noise(size), TEXT.iter().copied().cycle().take(size).collect()] {
                assert_eq!(read(codec, &compressed(codec, &input)).unwrap(), input, "{codec} {size}");
            }
        }
    }
}

#[test]
fn levels_out_of_range_are_the_nearest() {
    for codec in Codec::ALL {
        for level in [i32::MIN, -1, 0, 1, 9, 17, 22, i32::MAX] {
            let mut output = Vec::new();
            compress(codec, level, TEXT, &mut output);
            assert_eq!(read(codec, &output).unwrap(), TEXT, "{codec} {level}");
        }
    }
}

#[test]
fn framing_is_what_java_reads() {
    let lz4 = compressed(Codec::Lz4, &noise(70_000));
    assert!(lz4.starts_with(&hex("04224d18604082")), "64 KiB blocks, independent, no checksums, no size");
    assert_eq!(lz4[7..11], 0x8001_0000u32.to_le_bytes(), "noise is stored");
    assert!(lz4.ends_with(&[0; 4]));
    let snappy = compressed(Codec::Snappy, &noise(70_000));
    assert!(snappy.starts_with(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"));
    assert_eq!(compressed(Codec::Gzip, TEXT)[..4], hex("1f8b0800"));
    assert_eq!(compressed(Codec::Zstd, TEXT)[..4], hex("28b52ffd"));
}

/// Made by the reference implementations, with every option on.
#[test]
fn other_writers_are_read() {
    let lz4 = "04224d187c402100000000000000a913000000ae303132333435363738390a005038396162632c40e3aa000000007a7dd5d9";
    assert_eq!(read(Codec::Lz4, &hex(lz4)).unwrap(), TEXT);
    let gzip = "1f8b08080100000002ff6e616d652e747874003330343236313533b7b034c0c24a4c4a0600dbdaa2e221000000";
    assert_eq!(read(Codec::Gzip, &hex(gzip)).unwrap(), TEXT);
    let zstd = "28b52ffd04009d000068303132333435363738396162630100a50b1202feb39a";
    assert_eq!(read(Codec::Zstd, &hex(zstd)).unwrap(), TEXT);
    let snappy = "2124303132333435363738394e0a0008616263";
    assert_eq!(read(Codec::Snappy, &hex(snappy)).unwrap(), TEXT);
}

#[test]
fn dependent_lz4_blocks_are_refused_as_by_kafka() {
    let linked = "04224d1860408222000000af303132333435363738390a00013f6162631700010614000f2100f350383961626300000000";
    let mut linked = hex(linked);
    assert!(read(Codec::Lz4, &linked).is_ok(), "this one says that its blocks are independent");
    linked[4] = 0x40;
    is_corrupt(Codec::Lz4, &linked);
}

/// The same probes were sent to Apache Kafka 4.3.1.
#[test]
fn ends_are_treated_as_by_kafka() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let whole = compressed(codec, TEXT);
        for size in 1..whole.len() {
            // A snappy stream is whole if there is nothing, or not even a length, behind its header.
            let only_header = codec == Codec::Snappy && (16..20).contains(&size);
            assert_eq!(read(codec, &whole[..size]).is_ok(), only_header, "{codec} cut to {size}");
        }
        let with_tail = |tail: &[u8]| read(codec, &[&whole, tail].concat());
        for size in [1, 3, 4, 8, 20, 40] {
            let result = with_tail(&vec![0x11; size]);
            let ignored = match codec {
                Codec::Snappy => size < 4,
                Codec::Zstd => false,
                _ => true,
            };
            assert_eq!(result.is_ok(), ignored, "{codec} and {size} bytes");
        }
        let twice = with_tail(&whole).unwrap();
        assert_eq!(twice.len(), if codec == Codec::Lz4 { 1 } else { 2 } * TEXT.len(), "{codec}");
        assert_eq!(read(codec, &compressed(codec, b"")).unwrap(), b"");
        is_corrupt(codec, &[0x55; 40]);
        if codec == Codec::Zstd {
            assert_eq!(read(codec, b"").unwrap(), b"");
            assert_eq!(with_tail(&whole[..whole.len() - 1]).unwrap().len(), TEXT.len(), "a second frame cut off");
        } else {
            is_corrupt(codec, b"");
        }
    }
}

#[test]
fn snappy_blocks_are_checked_before_memory_is_taken() {
    let stream = |blocks: &[u8]| [b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01", blocks].concat();
    // A block of 5 bytes that announces 4 GiB; 86 bytes did that in a batch.
    is_corrupt(Codec::Snappy, &stream(&hex("00000005ffffffff0f")));
    is_corrupt(Codec::Snappy, &hex("ffffffff0f"));
    is_corrupt(Codec::Snappy, &stream(&hex("00000000")));
    is_corrupt(Codec::Snappy, &stream(&hex("7fffffff00")));
    is_corrupt(Codec::Snappy, &stream(&hex("fffffffe00")));
    // A block of nothing, then one of one byte.
    assert_eq!(read(Codec::Snappy, &stream(&hex("00000001000000000301004a"))).unwrap(), b"J");
    // What only looks like a second stream is the end; one of version 0 is an error.
    assert_eq!(read(Codec::Snappy, &stream(b"\x82SNAzzzzzzzzzzzz")).unwrap(), b"");
    is_corrupt(Codec::Snappy, &stream(b"\x82SNAPPY\0\0\0\0\0\0\0\0\0"));
    is_corrupt(Codec::Snappy, &stream(b"\x82SNAP"));
}

#[test]
fn output_is_bounded() {
    // 128 KiB for each four bytes, without an end in sight.
    let mut zstd = hex("28b52ffd0038");
    for _ in 0..100 {
        zstd.extend(hex("02001000"));
    }
    let gzip = compressed(Codec::Gzip, &vec![0; 8 << 20]);
    for (codec, input) in [(Codec::Zstd, zstd), (Codec::Gzip, gzip)] {
        let limit = 1 << 20;
        assert_eq!(
            decompress(codec, &input.clone().into(), limit),
            Err(CompressionError::TooLarge { limit: limit as u64 })
        );
        let mut decompressor = Decompressor::new(codec, &input, 4 << 20).unwrap();
        let mut chunk = Vec::new();
        let mut total = 0;
        let end = loop {
            chunk.clear();
            match decompressor.read(&mut chunk) {
                Ok(size) => total += size,
                Err(error) => break error,
            }
            assert!(chunk.capacity() <= 64 << 10, "{codec} holds {}", chunk.capacity());
        };
        assert_eq!(end, CompressionError::TooLarge { limit: 4 << 20 });
        assert!(total > 3 << 20);
    }
    let plain = Bytes::from(vec![1; 100]);
    assert_eq!(decompress(Codec::None, &plain, 100), Ok(plain.clone()));
    assert_eq!(decompress(Codec::None, &plain, 99), Err(CompressionError::TooLarge { limit: 99 }));
}

#[test]
fn unknown_codecs_are_told() {
    assert_eq!(Codec::from_id(5), Err(UnknownCodec(5)));
    for codec in Codec::ALL {
        assert_eq!(Codec::from_id(codec.id()), Ok(codec));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_data_never_panics(
        codec in prop::sample::select(Codec::ALL.to_vec()),
        input in prop::collection::vec(0..4u8, 0..2000),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = compressed(codec, &input);
        for (index, byte) in damage {
            if !bytes.is_empty() {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(output) = decompress(codec, &bytes.into(), 1 << 20) {
            prop_assert!(output.len() <= 1 << 20);
        }
    }
}
