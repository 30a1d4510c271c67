// Reads a column of a matrix stored by rows, not cached: equal jumps over the file.
// cause: strided_access
// where: matrix.bin
// prepare: yes
// cold: yes
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    static char block[1 << 20];
    if (count > 1) {
        int matrix = open("matrix.bin", O_WRONLY | O_CREAT, 0644);
        for (int i = 0; i < 512; i++) {
            for (size_t j = 0; j < sizeof block; j += 64) block[j] = rand();
            if (write(matrix, block, sizeof block) < 0) return 1;
        }
        return fsync(matrix);
    }
    int matrix = open("matrix.bin", O_RDONLY);
    for (int row = 0; row < 4096; row++)
        if (pread(matrix, block, 64, (off_t)row * (128 << 10)) < 0) return 1;
}
