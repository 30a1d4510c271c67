//! Where sectors are, and when they pass the heads.
//!
//! Sectors are numbered from 0 through the tracks of a cylinder and then through the cylinders, outermost first. Tracks have
//! numbers too: cylinder × heads + head. An angle is a time in ns within a revolution: sector 0 of track 0 passes at times that
//! are whole revolutions, and each track starts later than the one before it by its skew.
//!
//! A transfer that goes on across tracks takes, whatever the zone, one revolution for each whole track and for each switch
//! the shortest time that suffices and ends when the next track's first sector passes. So the times of transfers over any
//! number of tracks have closed forms.

use super::parameters::Parameters;
use crate::device::Nanos;

/// Number of a sector.
pub(super) type Sector = u64;

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Track: cylinder × heads + head.
    pub track: u64,
    /// Sector on the track.
    pub index: u64,
    /// Sectors of the track.
    pub per_track: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: Sector,
    first_track: u64,
    per_track: u64,
}

/// Layout of sectors and times of their passing.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    /// Number of cylinders.
    pub cylinders: u64,
    /// Number of sectors in use.
    pub sectors: u64,
    /// Time of a revolution.
    pub revolution: Nanos,
    track_skew: Nanos,
    /// Angle between the first sectors of neighbouring cylinders.
    cylinder_turn: Nanos,
    head_switch: Nanos,
    cylinder_switch: Nanos,
    /// From the end of a track to the start of the next one.
    track_gap: Nanos,
    /// From the end of a cylinder to the start of the next one.
    cylinder_gap: Nanos,
}

impl Geometry {
    /// The layout of parameters that are valid.
    pub fn new(parameters: &Parameters) -> Self {
        let (heads, revolution) = (u64::from(parameters.heads), parameters.revolution_ns);
        let (mut first_sector, mut first_track) = (0, 0);
        let zones = parameters.zones.iter().map(|zone| {
            let per_track = u64::from(zone.sectors_per_track);
            let here = Zone { first_sector, first_track, per_track };
            first_track += u64::from(zone.cylinders) * heads;
            first_sector += u64::from(zone.cylinders) * heads * per_track;
            here
        });
        let zones = zones.collect();
        // The shortest time of at least `switch` after which the angle has advanced by `skew`.
        let gap =
            |skew: Nanos, switch: Nanos| skew + switch.saturating_sub(skew).div_ceil(revolution) * revolution;
        let (track_skew, cylinder_skew) = (parameters.track_skew_ns, parameters.cylinder_skew_ns);
        Self {
            zones,
            heads,
            cylinders: first_track / heads,
            sectors: parameters.capacity_bytes / u64::from(parameters.sector_bytes),
            revolution,
            track_skew,
            cylinder_turn: ((heads - 1) * track_skew + cylinder_skew) % revolution,
            head_switch: parameters.head_switch_ns,
            cylinder_switch: parameters.cylinder_switch_ns,
            track_gap: gap(track_skew, parameters.head_switch_ns),
            cylinder_gap: gap(cylinder_skew, parameters.cylinder_switch_ns),
        }
    }

    /// Where a sector is.
    pub fn place(&self, sector: Sector) -> Place {
        let zone = self.zone(|zone| zone.first_sector <= sector);
        let within = sector - zone.first_sector;
        Place {
            track: zone.first_track + within / zone.per_track,
            index: within % zone.per_track,
            per_track: zone.per_track,
        }
    }

    /// First sector of a track, and how many it has.
    fn track(&self, track: u64) -> (Sector, u64) {
        let zone = self.zone(|zone| zone.first_track <= track);
        (zone.first_sector + (track - zone.first_track) * zone.per_track, zone.per_track)
    }

    /// The last zone that begins early enough.
    fn zone(&self, begins: impl Fn(&Zone) -> bool) -> Zone {
        // The first one begins at 0. Few zones: a loop is faster than a binary search.
        let mut found = self.zones[0];
        for zone in &self.zones[1..] {
            if !begins(zone) {
                break;
            }
            found = *zone;
        }
        found
    }

    /// Cylinder of a track.
    pub fn cylinder(&self, track: u64) -> u64 {
        track / self.heads
    }

    /// Whether two tracks are of one cylinder.
    pub fn is_same_cylinder(&self, one: u64, other: u64) -> bool {
        self.cylinder(one) == self.cylinder(other)
    }

    /// Number of the sector at a place.
    pub fn sector(&self, place: Place) -> Sector {
        self.track(place.track).0 + place.index
    }

    /// The first sector of a sector's track.
    pub fn track_start(&self, sector: Sector) -> Sector {
        sector - self.place(sector).index
    }

    /// The sector after the last of a sector's track.
    pub fn track_end(&self, sector: Sector) -> Sector {
        let place = self.place(sector);
        sector - place.index + place.per_track
    }

    /// Time from the start of a track to that of one of its sectors, or to its end.
    fn offset(&self, index: u64, per_track: u64) -> Nanos {
        index * self.revolution / per_track
    }

    /// Angle at which a place begins.
    pub fn angle(&self, place: Place) -> Nanos {
        let (cylinder, head) = (place.track / self.heads, place.track % self.heads);
        let start = cylinder * self.cylinder_turn + head * self.track_skew;
        (start + self.offset(place.index, place.per_track)) % self.revolution
    }

    /// Wait at a time until a place comes round.
    pub fn latency(&self, now: Nanos, place: Place) -> Nanos {
        (self.angle(place) + self.revolution - now % self.revolution) % self.revolution
    }

    /// Time from the start of a sector's passing until `count` sectors from there have passed, switches included.
    pub fn elapsed(&self, from: Place, count: u64, last: Place) -> Nanos {
        if count == 0 {
            return 0;
        }
        let tracks = last.track - from.track;
        let cylinders = self.cylinder(last.track) - self.cylinder(from.track);
        let gaps = (tracks - cylinders) * self.track_gap + cylinders * self.cylinder_gap;
        tracks * self.revolution + gaps + self.offset(last.index + 1, last.per_track)
            - self.offset(from.index, from.per_track)
    }

    /// As [`elapsed`](Self::elapsed), from the sector at a place until that before `end`.
    pub fn elapsed_until(&self, from: Place, first: Sector, end: Sector) -> Nanos {
        self.elapsed(from, end.saturating_sub(first), self.place(end.saturating_sub(1).max(first)))
    }

    /// Whole sectors of a track that pass before a place, without a gap, if the head arrives on the track at a time.
    pub fn passing_before(&self, place: Place, arrival: Nanos) -> u64 {
        let start = self.latency(arrival, Place { index: 0, ..place });
        let offset = (self.revolution - start) % self.revolution;
        let first = (offset * place.per_track).div_ceil(self.revolution);
        // Where the place has passed already, the track's start comes before it.
        place.index - if first <= place.index { first } else { 0 }
    }

    /// The sector up to which everything has passed, if a transfer from a place on began `since` ago; not beyond `limit`.
    pub fn passed(&self, from: Place, since: Nanos, limit: Sector) -> Sector {
        // Counted from the start of the cylinder.
        let turn = self.revolution + self.track_gap;
        let at = since + self.offset(from.index, from.per_track) + from.track % self.heads * turn;
        let cylinder_time = self.heads * turn - self.track_gap + self.cylinder_gap;
        let within = at % cylinder_time;
        let head = (within / turn).min(self.heads - 1);
        let offset = (within - head * turn).min(self.revolution);
        let track = (self.cylinder(from.track) + at / cylinder_time) * self.heads + head;
        if track >= self.cylinders * self.heads {
            return limit;
        }
        let (first, per_track) = self.track(track);
        // The last sector whose start is not after the offset: all before it have passed.
        let index = if offset == self.revolution {
            per_track
        } else {
            ((offset + 1) * per_track - 1) / self.revolution
        };
        (first + index).min(limit)
    }

    /// When sectors from a place on are all read, with the head on its track at `arrival`, if each track is read from
    /// where the head arrives.
    pub fn read_on_arrival(&self, from: Place, count: u64, last: Place, arrival: Nanos) -> Nanos {
        if count == 0 {
            return arrival;
        }
        let end = |place: Place| self.offset(place.index + 1, place.per_track);
        if from.track == last.track {
            let start = self.offset(from.index, from.per_track);
            return self.track_on_arrival(arrival, from, end(last) - start);
        }
        // The rest of the first track, whole tracks of which each takes a revolution, the start of the last track.
        let rest = self.revolution - self.offset(from.index, from.per_track);
        let first_done = self.track_on_arrival(arrival, from, rest);
        let tracks = last.track - from.track;
        let cylinders = self.cylinder(last.track) - self.cylinder(from.track);
        let switches = (tracks - cylinders) * self.head_switch + cylinders * self.cylinder_switch;
        let arrival = first_done + (tracks - 1) * self.revolution + switches;
        let start = Place { index: 0, ..last };
        self.track_on_arrival(arrival, start, end(last))
    }

    /// When the sectors that pass from a place on for a time are read. All of them are on its track.
    fn track_on_arrival(&self, arrival: Nanos, from: Place, time: Nanos) -> Nanos {
        let latency = self.latency(arrival, from);
        let inside = latency + time > self.revolution;
        arrival + if inside { self.revolution } else { latency + time }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::{Bus, Scheduler, Seek, SeekPoint, Zone as Cylinders};

    fn geometry(heads: u32, zones: &[(u32, u32)], revolution_ns: Nanos, times: [Nanos; 4]) -> Geometry {
        let zones: Vec<_> = zones
            .iter()
            .map(|(cylinders, sectors_per_track)| Cylinders {
                cylinders: *cylinders,
                sectors_per_track: *sectors_per_track,
            })
            .collect();
        let all: u64 =
            zones.iter().map(|zone| u64::from(zone.cylinders * zone.sectors_per_track * heads)).sum();
        Geometry::new(&Parameters {
            capacity_bytes: all * 512,
            sector_bytes: 512,
            heads,
            zones,
            revolution_ns,
            track_skew_ns: times[0] % revolution_ns,
            cylinder_skew_ns: times[1] % revolution_ns,
            head_switch_ns: times[2],
            cylinder_switch_ns: times[3],
            seek: Seek::Table(vec![SeekPoint { distance: 1.0, time_ns: 0 }]),
            write_settle_ns: 0,
            zero_latency: false,
            read_cache: None,
            write_cache: None,
            bus: Bus {
                rate_bytes_per_s: 1000,
                read_overlap: true,
                read_ns: 0,
                write_ns: 0,
                read_hit_ns: 0,
                write_hit_ns: 0,
            },
            queue_depth: 1,
            scheduler: Scheduler::Fcfs,
            age_limit_ns: None,
            power: None,
        })
    }

    proptest! {
        /// Against a walk over all sectors, one at a time.
        #[test]
        fn places_and_times_are_those_of_a_walk(
            heads in 1_u32..4,
            zones in prop::collection::vec((1_u32..5, 1_u32..12), 1..4),
            revolution in 12_u64..10_000,
            times in prop::array::uniform4(0_u64..20_000),
            from in any::<prop::sample::Index>(),
        ) {
            let geometry = geometry(heads, &zones, revolution, times);
            let from = from.index(geometry.sectors as usize) as u64;
            let start = geometry.place(from);
            let (mut sector, mut track, mut track_angle) = (0, 0, 0);
            let mut now = None;
            for (cylinders, per_track) in zones {
                for _ in 0..cylinders * heads {
                    if track > 0 {
                        let is_cylinder = track % u64::from(heads) == 0;
                        track_angle += times[usize::from(is_cylinder)] % revolution;
                        if let Some(now) = &mut now {
                            *now += times[2 + usize::from(is_cylinder)];
                        }
                    }
                    for index in 0..u64::from(per_track) {
                        let per_track = u64::from(per_track);
                        let place = Place { track, index, per_track };
                        prop_assert_eq!(geometry.place(sector), place);
                        prop_assert_eq!(geometry.sector(place), sector);
                        prop_assert_eq!(geometry.track_start(sector), sector - index);
                        prop_assert_eq!(geometry.track_end(sector), sector - index + per_track);
                        let angle = (track_angle + index * revolution / per_track) % revolution;
                        prop_assert_eq!(geometry.angle(place), angle);
                        if sector == from {
                            now = Some(angle);
                        }
                        if let Some(now) = &mut now {
                            // Waits for the sector, then reads it.
                            *now += (angle + revolution - *now % revolution) % revolution;
                            let before = *now - geometry.angle(start);
                            *now += (index + 1) * revolution / per_track - index * revolution / per_track;
                            let after = *now - geometry.angle(start);
                            prop_assert_eq!(geometry.elapsed(start, sector + 1 - from, place), after);
                            prop_assert_eq!(geometry.passed(start, after, u64::MAX), sector + 1);
                            prop_assert_eq!(geometry.passed(start, before, u64::MAX), sector);
                            if after > before {
                                prop_assert_eq!(geometry.passed(start, after - 1, u64::MAX), sector);
                            }
                        }
                        sector += 1;
                    }
                    track += 1;
                }
            }
            prop_assert_eq!(sector, geometry.sectors);
        }
    }
}
