import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.util.*;

/** Makes up patterns, and prints what RE2/J says of each: why it is invalid, or which of the names in the first line it matches. */
public class Match {
    static final String[] NAMES = {
        "a", "b", "ab", "aa", "aab", "aaab", "abab", "A", "B", "AB", "aB", "k", "K", "s", "S", "z", "0", "1", "01", "7", "-", "_", ".", "..a",
        "a-b", "a_b", "a.b", "a1", "a-1", "orders", "Orders", "orders-eu", "orders.v2", "xorders", "__consumer_offsets", "{", "a{", "abc", "bc", "cab"
    };
    static final String[] PIECES = {
        "a", "b", "ab", "k", "s", "A", "B", "0", "1", "-", "_", "\\.", ".", ".*", ".+", "orders", "(", ")", "(", ")", "(?:", "(?i)", "(?i:", "(?-i)", "(?s)",
        "(?m)", "(?U)", "(?im-s:", "(?P<n>", "(?<m>", "(?P<n1>", "|", "|", "|", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}", "{,3}", "{", "}",
        "{2,1}", "{1001}", "{0}", "{01}", "{3", "^", "$", "\\A", "\\z", "\\b", "\\B", "\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\pL", "\\PL", "\\p{Lu}", "\\p{^Ll}", "\\P{Nd}",
        "\\p{Greek}", "\\p{Latin}", "\\p{Common}", "\\p{Foo}", "\\p", "\\p{", "\\pN", "\\Q", "\\E", "\\Qa.b\\E", "\\Q*", "\\x41", "\\x{62}", "\\x{17f}", "\\x{212a}", "\\x{", "\\x4",
        "\\x{110000}", "\\x{}", "\\x{0000000041}", "\\x{d800}", "\\101", "\\1", "\\60", "\\08", "\\n", "\\t", "\\a", "\\-", "\\_", "\\/", "\\Z", "\\C", "\\G", "\\h", "\\", "\\\\", "[", "]", "[ab]", "[^a]",
        "[a-c]", "[c-a]", "[]a]", "[^]a]", "[a-]", "[-a]", "[--0]", "[\\d-z]", "[a-\\d]", "[\\w.-]", "[[:alpha:]]", "[[:^digit:]]", "[[:foo:]]", "[[:lower:]_]", "[[:]]", "[[:a]", "[\\pL\\d]",
        "[\\x{17f}]", "[^k]", "[\\x{2000}-\\x{3000}]", "[^\\x00-\\x{10ffff}]", "[\\Qa\\E]", "[a&&b]", "[a--b]", "[[ab]]", "[\\b]", "[\\101-\\103]", "(?", "(?x)", "(?=a)", "(?!a)", "(?<=a)", "(?#a)", "(?P=n)",
        "(?P>n)", "(?P<>", "(?P<a-b>", "(?i-)", "(?-)", "(?)", "\u00e9", "[\u00e9]", "\\\u00e9", "&&", "#", " "
    };

    public static void main(String[] args) {
        Random random = new Random(42);
        StringBuilder out = new StringBuilder(String.join(" ", NAMES)).append('\n');
        Set<String> seen = new HashSet<>();
        List<String> patterns = new ArrayList<>(Arrays.asList(PIECES));
        while (patterns.size() < Integer.parseInt(args[0])) {
            StringBuilder pattern = new StringBuilder();
            int pieces = 1 + random.nextInt(6);
            // Mostly of the harmless pieces, as otherwise nothing is valid.
            for (int i = 0; i < pieces; i++) pattern.append(PIECES[random.nextInt(random.nextInt(3) == 0 ? PIECES.length : 72)]);
            for (int open = 0; open < 3 && pattern.toString().replaceAll("\\\\.", "").chars().map(c -> c == '(' ? 1 : c == ')' ? -1 : 0).sum() > open; open++)
                if (random.nextInt(4) > 0) pattern.append(')');
            patterns.add(pattern.toString());
        }
        for (String pattern : patterns) {
            if (!seen.add(pattern)) continue;
            String answer;
            try {
                Pattern compiled = Pattern.compile(pattern);
                StringBuilder bits = new StringBuilder();
                for (String name : NAMES) bits.append(compiled.matcher(name).matches() ? '1' : '0');
                answer = bits.toString();
            } catch (PatternSyntaxException e) {
                answer = e.getDescription();
            }
            out.append(pattern).append('\t').append(answer).append('\n');
        }
        System.out.write(out.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8), 0, out.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8).length);
        System.out.flush();
    }
}
