package tickets;

import java.util.BitSet;

/** The seats of one row, numbered from 1. */
public final class Seats {
    private final BitSet taken = new BitSet();
    private final int size;

    public Seats(int size) {
        this.size = size;
    }

    /** Takes so many seats beside each other; the number of the first. */
    public int take(int count) {
        for (int first = 1; first + count < size; first++) {
            if (taken.get(first, first + count).isEmpty()) {
                taken.set(first, first + count);
                return first;
            }
        }
        throw new IllegalStateException("no " + count + " seats beside each other");
    }

    public int free() {
        return size - taken.cardinality();
    }
}
