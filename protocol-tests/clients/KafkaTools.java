import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's command line tools one after another in one JVM, since each start of a JVM costs seconds.
 *
 * <p>{@code java -cp LIBS_WITHOUT_TOOLS KafkaTools TOOL_JAR...}; then one line a call on standard input: the files for the tool's standard
 * input, output and error, the main class, the arguments, URL-encoded and separated by spaces. Its exit status is the answer, on a line.
 *
 * <p>Every call loads the tools' classes anew, so their static state is fresh; but where the main class has a `+` before it, which is faster. Exit.exit ends the call instead of the JVM, and the
 * shutdown hooks run when a call ends.
 */
public final class KafkaTools {
    /** Unwinds the tool's stack in place of the end of the process. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static final Deque<Runnable> HOOKS = new ArrayDeque<>();
    private static URLClassLoader kept; // with the classes of calls that need no fresh ones
    private static Integer status; // of the call that runs; the first Exit.exit counts

    public static void main(String[] toolJars) throws Exception {
        PrintStream answers = System.out;
        URL[] jars = new URL[toolJars.length];
        for (int i = 0; i < jars.length; i++) jars[i] = new File(toolJars[i]).toURI().toURL();
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.push(hook));
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = calls.readLine()) != null; ) {
            String[] words = line.split(" ", -1);
            for (int i = 0; i < words.length; i++) words[i] = URLDecoder.decode(words[i], StandardCharsets.UTF_8);
            answers.println(call(jars, words));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // threads that a tool left behind do not keep the JVM
    }

    private static int call(URL[] jars, String[] words) throws Exception {
        status = null;
        HOOKS.clear();
        try (InputStream in = new FileInputStream(words[0]);
             PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(words[1]), 1 << 16), false, StandardCharsets.UTF_8);
             PrintStream err = new PrintStream(new FileOutputStream(words[2]), true, StandardCharsets.UTF_8);
             URLClassLoader fresh = new URLClassLoader(jars, KafkaTools.class.getClassLoader())) {
            System.setIn(in);
            System.setOut(out);
            System.setErr(err);
            boolean keep = words[3].startsWith("+");
            if (keep && kept == null) kept = new URLClassLoader(jars, KafkaTools.class.getClassLoader());
            URLClassLoader tools = keep ? kept : fresh;
            Thread.currentThread().setContextClassLoader(tools);
            int returned = run(tools, keep ? words[3].substring(1) : words[3], Arrays.copyOfRange(words, 4, words.length));
            while (!HOOKS.isEmpty()) HOOKS.pop().run();
            return status == null ? returned : status;
        }
    }

    private static int run(ClassLoader tools, String mainClass, String[] arguments) throws Exception {
        try {
            Class.forName(mainClass, true, tools).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) e.getCause().printStackTrace();
            return 1;
        }
    }

    private static void end(int code) {
        if (status == null) status = code;
        throw new Ended();
    }
}
