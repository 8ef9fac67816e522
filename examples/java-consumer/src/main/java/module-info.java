/** A program that is a module: one word about SPEED is enough. */
module shop {
    requires speed;
}
