// Reads a file in order with O_DIRECT, a block at a time.
// cause: small_direct
// where: volume.img
// prepare: yes
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    char *block = aligned_alloc(4096, 1 << 20);
    if (count > 1) {
        int image = open("volume.img", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < 32; i++)
            if (write(image, block, 1 << 20) < 0) return 1;
        return fsync(image);
    }
    int image = open("volume.img", O_RDONLY | O_DIRECT);
    while (read(image, block, 4096) > 0) {}
}
