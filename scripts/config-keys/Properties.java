// Prints texts and what java.util.Properties reads from them, for tests/golden/config/properties.tsv.
// Usage: java Properties.java > properties.tsv
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;

class Oracle {
    static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder();
        for (byte b : bytes) out.append(String.format("%02x", b));
        return out.toString();
    }

    static String units(String s) {
        StringBuilder out = new StringBuilder();
        for (char c : s.toCharArray()) out.append(String.format("%04x", (int) c));
        return out.toString();
    }

    public static void main(String[] args) throws Exception {
        List<String> texts = new ArrayList<>(List.of(
            "a=1\nb:2\nc 3\nd\t4\ne\f5\n", "a=1\r\nb=2\rc=3", "  a  =  1  \n", "#x\n!y\n a=1\n", "a=1\na=2\n", "a\\=b=c\n", "a\\:b\\ c:d\n",
            "a=b\\\n   c\n", "a=b\\\n\nc=d\n", "a=b\\\n# c\nd=e\n", "a=b\\\\\nc=d\n", "a=b\\\\\\\nc=d\n", "\\\n#x\na=b\n", "\\\na=b\n", "a=b\\", "a=b\\\n",
            "a=\\u00e9\\u20ac\\ud83d\\ude00\n", "a=\\t\\n\\r\\f\\q\\\\\n", "a=\\u12", "a=\\u12x4\n", "\\u0061=\\u0062\n", "a==b\n", "a : = b\n", "a = : b\n", "=x\n", ":\n", "a\n",
            "\n\n  \n\t\n", "", "a=\u00e9\u00fc\n", "a = \\  b\n", "# c \\\na=1\n", "a=1 # no comment\n", "listeners=PLAINTEXT://:9092,\\\n  SSL://:9093\n", "a=b\\\r\n  c\r\n", "a=b\\\r\r\nc\n",
            "\\\n", "\\\\\n", "\\", "a\\", "\\ a=b\n", "a=\\\n\\\nb\n", "a=b\\\n  #c\n", "#\\\na=b", "a=x\\\n \\\n y\n", "  # c\n  ! d\n  e = f\n", "\f a=b\n", "a\\\n=b\n", "a\\\n  =b\n", "a \\\n b\n"));
        // and many that mix what has a meaning
        Random random = new Random(7);
        char[] letters = {'\\', '\\', '\n', '\r', ' ', '=', ':', '#', 'a', 'b', '\t', '!', 'u'};
        for (int i = 0; i < 400; i++) {
            StringBuilder text = new StringBuilder();
            int length = 1 + random.nextInt(14);
            for (int j = 0; j < length; j++) text.append(letters[random.nextInt(letters.length)]);
            texts.add(text.toString());
        }
        System.out.println("# bytes of a properties file; the entries that java.util.Properties of JDK " + Runtime.version().feature() + " reads (UTF-16, in hexadecimal)");
        for (String text : texts) {
            byte[] bytes = text.getBytes(StandardCharsets.ISO_8859_1);
            StringBuilder line = new StringBuilder(hex(bytes));
            try {
                java.util.Properties p = new java.util.Properties();
                p.load(new ByteArrayInputStream(bytes));
                TreeMap<String, String> sorted = new TreeMap<>();
                for (String k : p.stringPropertyNames()) sorted.put(k, p.getProperty(k));
                sorted.forEach((k, v) -> line.append('\t').append(units(k)).append('=').append(units(v)));
            } catch (IllegalArgumentException e) {
                line.append("\tmalformed");
            }
            System.out.println(line);
        }
    }
}
