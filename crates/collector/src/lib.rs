//! Records of many machines into one trail, and to those who watch.
