//! Workload models of any bytes: refused, or one whose requests can be drawn. They come in the order of time, lie on their
//! devices, and take no more memory than their number needs, whatever the counts say.
//!
//! An input is a model file, or after a byte 0 numbers that replace some of a small model's own: three bytes each for which of
//! them, eight for a number.

#![no_main]

use iotrail_model::Model;
use iotrail_model::draw::Draw;
use iotrail_sim::Op;
use libfuzzer_sys::fuzz_target;

const BASE: &str = include_str!("../seeds/model/small.json");
/// Requests that are drawn.
const REQUESTS: usize = 1_000;

fuzz_target!(|input: &[u8]| {
    let text = match input.split_first() {
        Some((0, rest)) => changed(rest),
        _ => String::from_utf8_lossy(input).into_owned(),
    };
    let Ok(model) = Model::read(&text) else { return };
    // One request may use any number of pages.
    let longest = |sizes: &mut dyn Iterator<Item = u64>| sizes.max().unwrap_or(0) > 1 << 20;
    if longest(&mut model.sizes.iter().flat_map(|part| part.1.values().flatten()).map(|row| row.0))
        || longest(&mut model.next_sizes.values().flatten().map(|row| row.2))
        || longest(&mut model.largest.iter().flat_map(|run| run.5.iter().map(|of| of.0).chain([run.4])))
    {
        return;
    }
    let mut last = 0;
    for arrival in Draw::new(&model, 1).take(REQUESTS) {
        assert!(arrival.at >= last, "{} after {last}", arrival.at);
        last = arrival.at;
        let reach = model.devices[arrival.device as usize].reach_bytes;
        let request = arrival.request;
        assert!(request.op == Op::Flush || request.pos <= reach, "{request:?} beyond {reach}");
    }
});

/// A small model with other numbers.
fn changed(input: &[u8]) -> String {
    let is_part = |one: char, other: char| one.is_ascii_digit() == other.is_ascii_digit();
    let mut parts: Vec<String> = Vec::new();
    for letter in BASE.chars() {
        match parts.last_mut() {
            Some(part) if part.chars().next_back().is_some_and(|last| is_part(last, letter)) => part.push(letter),
            _ => parts.push(letter.into()),
        }
    }
    let numbers: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].parse::<u64>().is_ok()).collect();
    for change in input.chunks_exact(11) {
        let which = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
        let bits = u64::from_le_bytes(change[3..].try_into().expect("eight bytes"));
        // Small numbers are more often valid than any bits.
        let number = match bits & 3 {
            0 | 1 => bits >> 2 & 0xff,
            2 => bits >> 2 & 0xf_ffff,
            _ => bits >> 2,
        };
        parts[numbers[which % numbers.len()]] = number.to_string();
    }
    parts.concat()
}
