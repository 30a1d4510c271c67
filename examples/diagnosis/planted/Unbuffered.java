// A Java program that writes byte by byte to an unbuffered stream.
// cause: tiny_appends
// where: bytes.out
// advice: BufferedOutputStream
// held: yes
import java.io.FileOutputStream;

class Unbuffered {
    public static void main(String[] arguments) throws Exception {
        try (FileOutputStream out = new FileOutputStream("bytes.out")) {
            for (int i = 0; i < 800_000; i++) {
                out.write(i);
            }
        }
    }
}
